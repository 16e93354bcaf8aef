"""Kernels that write where they should not, on devices that share the host's memory or do not.

All of them take part in one find, beside the GEMM solvers, by their own account faster than those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from opencl_testing import NUMBERS

from convfind.checking.reference import reference_convolution
from convfind.device.target import Target
from convfind.find.result import FindResult
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.tensors import empty_memory
from convfind.settings import Settings
from convfind.solver import Solver
from convfind.solver.applicability import APPLICABLE, Applicability
from convfind.solver.config import Config
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, i32
from convfind.types import Algorithm
from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.gemm.solver_list import solvers

PROBLEM = ConvProblem.forward(x=(1, 8, 12, 12), w=(16, 8, 1, 1))
DEEDS = {
    1: "changed x, which it only reads",
    2: "changed x, which it only reads",
    3: "wrote behind the end of the workspace",
    4: "wrote behind the end of y",
    5: "right at first, and wrong when it was timed",
    6: "right at first, and wrong when it was timed",
    7: "changed w, which it only reads",
}
_SCRATCH = 4096


class Hostile(Solver):
    """The kernel of a deed."""

    algorithm = Algorithm.DIRECT
    is_dynamic = True
    backends = ("opencl",)

    def __init__(self, deed: int) -> None:
        self._deed = deed
        self.solver_id = f"hostile-{deed}"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take everything; it is asked about `PROBLEM` only."""
        return APPLICABLE

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """A page."""
        return _SCRATCH

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """More than everybody."""
        return 9.0

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One work-item."""
        source = KernelSource("opencl_test_kernels", "hostile.cl")
        program = Program(source, KernelLanguage.OPENCL_C, make_defines(DEED=self._deed))
        sizes = (8, 16, 144, _SCRATCH // 4)
        arguments = (*map(BufferArg, (Memory.X, Memory.W, Memory.Y, Memory.WORKSPACE)),)
        launch = Launch(KernelSpec(program, "hostile"), (*arguments, *map(i32, sizes)), (1,), (1,))
        return Recipe(self.solver_id, (launch,), workspace=_SCRATCH)


class Plugin:
    """Hostile solvers, the honest one among them, and GEMM."""

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend([*(Hostile(deed) for deed in (0, *DEEDS)), *solvers()])


@dataclass(frozen=True, slots=True)
class Found:
    """The handle of a find, and what it found."""

    handle: Handle
    result: FindResult


@pytest.fixture(scope="module", params=NUMBERS)
def found(
    request: pytest.FixtureRequest, backend: OpenCLBackend, tmp_path_factory: Any
) -> Iterator[Found]:
    registry = Registry.build([Plugin()], load_entry_points=False)
    settings = Settings(user_db_path=tmp_path_factory.mktemp("db"))
    with handle_for(backend.open(str(request.param)), registry, settings) as handle:
        yield Found(handle, handle.find(PROBLEM, mode="normal"))


@pytest.mark.parametrize("deed", DEEDS)
def test_each_hostile_solver_is_refused_and_quarantined(found: Found, deed: int) -> None:
    why = found.result.rejected[f"hostile-{deed}"]
    assert why.reason is Reason.WRONG_RESULT
    assert why.detail.startswith(DEEDS[deed])
    handle = found.handle
    records = handle.database.quarantined(handle.target, PROBLEM)
    assert {record.solver for record in records} == {f"hostile-{deed}" for deed in DEEDS}


def test_the_honest_ones_are_all_there_and_right(found: Found) -> None:
    ids = {solution.solver for solution in found.result.solutions}
    assert {"hostile-0", "opencl-gemm-pointwise-fwd"} <= ids
    assert not any(f"hostile-{deed}" in ids for deed in DEEDS)
    reads = {name: np.empty(0, np.float32) for name in ("x", "w")}
    for seed, name in enumerate(reads):
        memory = empty_memory(PROBLEM, name)  # so aligned that kernels work on it in place
        memory[...] = np.random.default_rng(seed).standard_normal(memory.size)
        reads[name] = memory.reshape(PROBLEM.shape(name))
    before = {name: tensor.copy() for name, tensor in reads.items()}
    expected = reference_convolution(PROBLEM, *reads.values())
    for solution in found.result.solutions:
        result = found.handle.run(solution, **reads)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    for name, tensor in reads.items():
        np.testing.assert_array_equal(tensor, before[name])
