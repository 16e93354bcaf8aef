"""A property that problems get later breaks no solver: all that are installed refuse it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from convfind import handle_for
from convfind.device.target import DeviceKind, Target
from convfind.find.screening import screen
from convfind.kit.completed import Completed
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry, SolverRegistry
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.settings import Settings
from convfind.testing import MOCK_TARGET, MockBackend, MockSolver
from convfind.testing.shapes import edge_cases, variants, with_unknown_trait

CPU = replace(MOCK_TARGET, identity="", backend="opencl")
GPU = replace(CPU, identity="", kind=DeviceKind.GPU, local_memory=48 * 1024, max_work_group=1024)
NVIDIA = replace(GPU, identity="", arch="sm_90", features=frozenset({"nv-ptx"}))
AMD = replace(GPU, identity="", backend="hip", features=frozenset({"rocblas", "dot4"}))


class Undeclared(MockSolver):
    """A third party's: it takes everything, and says nothing of a domain."""

    solver_id = "third-party-undeclared"
    backends = ()  # type: ignore[assignment]


class Stranger:
    """Its plugin."""

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        """Register the solver."""
        register.add(Undeclared())


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.build([Stranger()])


def screened(
    problem: ConvProblem, target: Target, registry: Registry, folder: Path
) -> tuple[list[str], dict[str, Reason]]:
    """Ids of the solvers that take the problem, and the reasons of all others."""
    device = MockBackend(devices=(target,)).open()
    with handle_for(device, registry, Settings(user_db_path=folder)) as handle:
        found = screen(problem, handle.session, Policy(dynamic_only=False))
    reasons = {solver_id: refused.reason for solver_id, refused in found.rejected.items()}
    return [solver.solver_id for solver in found.candidates], reasons


@pytest.mark.parametrize("target", [CPU, GPU, NVIDIA, AMD], ids=["cpu", "gpu", "nvidia", "amd"])
def test_every_solver_refuses_a_property_that_it_cannot_know(
    target: Target, registry: Registry, tmp_path: Path
) -> None:
    everyone = {
        solver.solver_id for solver in registry.solvers if solver.domain.problem == ConvProblem.kind
    }
    assert "third-party-undeclared" in everyone
    known = ConvProblem.forward((1, 64, 14, 14), (64, 64, 3, 3), padding=1)
    taken, refused = screened(known, target, registry, tmp_path)
    assert "third-party-undeclared" in taken
    assert len(taken) > 3
    assert set(taken) | set(refused) == everyone

    later_taken, later_refused = screened(with_unknown_trait(known), target, registry, tmp_path)
    assert later_taken == []
    assert set(later_refused) == everyone
    assert {later_refused[solver_id] for solver_id in taken} == {Reason.TRAIT}


def test_the_index_of_domains_answers_as_each_domain_does(registry: Registry) -> None:
    for target in (CPU, NVIDIA, replace(NVIDIA, identity="", features=frozenset()), AMD):
        solvers, foreign = registry.solvers_for(target)
        for problem in (other for case in edge_cases() for other in variants(case.plain())):
            inside, refused = registry.candidates_for(problem, target)
            by_domain = {s.solver_id: s.domain.refusal(problem, target) for s in solvers}
            taking = [one for one in inside if not isinstance(one, Completed)]
            assert [s.solver_id for s in taking] == [s for s, no in by_domain.items() if no is None]
            completed = [one for one in inside if isinstance(one, Completed)]
            assert all(one.domain.refusal(problem, target) is None for one in completed)
            known = {*foreign, *by_domain}
            assert {one: why for one, why in refused.items() if one in known} == {
                **foreign,
                **{s: no for s, no in by_domain.items() if no is not None},
            }
            assert all(
                one.endswith(("+copies", "+epilogue")) for one in refused if one not in known
            )


def test_problems_of_one_kind_are_divided_once(registry: Registry) -> None:
    small = ConvProblem.forward((1, 8, 7, 7), (8, 8, 3, 3))
    large = ConvProblem.forward((9, 64, 56, 56), (128, 64, 5, 7))
    strided = ConvProblem.forward((1, 8, 7, 7), (8, 8, 3, 3), stride=2)
    first = registry.candidates_for(small, CPU)
    assert registry.candidates_for(large, CPU) is first
    assert registry.candidates_for(strided, CPU) is not first
    assert registry.candidates_for(small, NVIDIA) is not first
