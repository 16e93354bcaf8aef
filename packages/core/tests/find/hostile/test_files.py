"""Files are looked at before they run: configs, binaries, records of other kernels."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import convfind
from convfind.checking.reference import reference_convolution
from convfind.device.target import Target
from convfind.errors import ProblemError, SolutionError
from convfind.find.recall import recall, why_unused
from convfind.find.solution import Solution
from convfind.finddb import FindEntry
from convfind.handle.miopen_calls import FindOptions
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.config import Config
from convfind.solver.kernel_source import KernelSource
from convfind.solver.recipe import Recipe
from convfind.solver.search_space import Parameter, SearchSpace
from convfind.testing.solvers import MockDynamic, MockTunable

CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"tile": 3}, "tile is 3, not one of"),
    ({"tile": 16}, "tile fits: 8 at most"),
    ({"tile": True}, "tile is True"),
    ({"tile": 1.0}, "tile is 1.0"),
    ({"tile": "1"}, "tile is '1'"),
    ({"tile": 1 << 20}, "tile is 1048576"),
    ({}, "tile is missing"),
    ({"tile": 1, "more": 2}, "there is no parameter more"),
]


def with_config(solution: Solution, path: Path, config: dict[str, Any]) -> Solution:
    """Save a solution, change the file, and load it."""
    solution.save(path)
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, "config": config}))
    return Solution.load(path)


@pytest.mark.parametrize(("config", "why"), CONFIGS)
def test_a_saved_config_beyond_the_search_space_is_refused(
    bench: Any, problem: Any, tmp_path: Path, config: dict[str, Any], why: str
) -> None:
    handle = bench.open("mock-tunable")
    best = handle.find(problem, mode="normal").best
    with pytest.raises(SolutionError, match="of mock-tunable is not legal") as caught:
        handle.prepare(with_config(best, tmp_path / "s.json", config))
    assert why in str(caught.value)


@pytest.mark.parametrize("name", ["device", "time_origin", "config", "solver", "problem"])
def test_a_message_about_a_file_is_one_short_line(
    bench: Any, problem: Any, tmp_path: Path, name: str
) -> None:
    handle, path = bench.open("mock-tunable"), tmp_path / "s.json"
    handle.find(problem, mode="normal").best.save(path)
    text = "a\nb " * 10_000
    changed = {name: {"tile": text} if name == "config" else text}
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises((SolutionError, ProblemError)) as caught:
        handle.prepare(Solution.load(path))
    assert len(str(caught.value)) < 2000
    assert "\n" not in str(caught.value)


def test_a_saved_config_of_a_solver_without_parameters_is_refused(
    bench: Any, problem: Any, tmp_path: Path
) -> None:
    handle = bench.open("mock-dynamic")
    best = handle.find(problem, mode="normal").best
    with pytest.raises(SolutionError, match="mock-dynamic has no parameters"):
        handle.prepare(with_config(best, tmp_path / "s.json", {"tile": 1}))


@pytest.mark.parametrize("tile", [1, 2, 8])
def test_a_saved_legal_config_runs(
    bench: Any, problem: Any, tensors: Any, tmp_path: Path, tile: int
) -> None:
    handle = bench.open("mock-tunable")
    best = handle.find(problem, mode="normal").best
    loaded = with_config(best, tmp_path / "s.json", {"tile": tile})
    assert handle.prepare(loaded).recipe.config == Config(tile=tile)
    expected = reference_convolution(problem, *tensors.values())
    np.testing.assert_allclose(handle.run(loaded, **tensors), expected, rtol=1e-5, atol=1e-5)


def test_a_config_that_the_solver_itself_takes_runs(bench: Any, problem: Any) -> None:
    class Outside(MockTunable):
        """Its default is not in its space."""

        def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
            """Larger tiles only."""
            return SearchSpace((Parameter("tile", (2, 4)),))

    outside = Outside()
    outside.solver_id = "mock-outside"
    handle = bench.open("mock-dynamic", extra=[outside])
    found = handle.find(problem, mode="normal")
    for solution in found.solutions:
        handle.prepare(solution)
    assert handle.find(problem, mode="normal").solutions[1].solver == "mock-outside"


def test_a_config_older_than_a_parameter_is_legal() -> None:
    space = SearchSpace((Parameter("tile", (1, 2)), Parameter("parts", (1, 4), formerly=1)))
    assert Config(tile=2) in space
    assert Config(tile=2, parts=4) in space
    assert Config(tile=2, parts=2) not in space
    assert Config(parts=4) not in space


# -- records --------------------------------------------------------------------------------------


def change_record(handle: Any, problem: ConvProblem, **changes: Any) -> None:
    """Change the records of a problem, as another program or a pack may have written them."""
    entry, _, _ = handle.database.own(handle.target, problem)
    records = tuple(msgspec.structs.replace(record, **changes) for record in entry.records)
    changed = FindEntry(records=records, considered=entry.considered)
    handle.database.store(handle.target, problem, changed, replace=True)


@pytest.mark.parametrize(("config", "why"), CONFIGS)
def test_a_record_with_a_config_beyond_the_search_space_is_not_used(
    bench: Any, problem: Any, config: dict[str, Any], why: str
) -> None:
    handle = bench.open("mock-tunable")
    handle.find(problem, mode="normal")
    change_record(handle, problem, config=config, time_ms=1e-6)
    entry, _, _ = handle.database.own(handle.target, problem)
    policy = handle.policy("normal")
    told = why_unused(entry.records[0], problem, handle.session, policy, {})
    assert why in str(told)
    assert not recall(problem, handle.session, policy).solutions
    found = handle.find(problem, mode="normal")
    assert found.best.config == Config(tile=1)
    assert found.best.time_ms > 0.1


def test_a_tuned_config_beyond_the_search_space_is_not_used(bench: Any, problem: Any) -> None:
    handle = bench.open("mock-tunable")
    bad = Config(tile=True)
    handle.database.store_config(handle.target, problem, "mock-tunable", 1, bad, 1e-6)
    recipe = handle.prepare(handle.find(problem, mode="normal").best).recipe
    assert recipe.config.is_same(Config(tile=1))


# -- other kernels --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edited(KernelSource):
    """A kernel file after an edit."""

    edition: int = 0

    @property
    def text(self) -> str:
        """Another text in each edition."""
        return f"// edition {self.edition}"


class Editable(MockDynamic):
    """A solver at the same version whose kernel is edited, to become right and faster."""

    solver_id = "mock-editable"

    def __init__(self, edition: int, microseconds: int = 10, entry: str = "mock_wrong") -> None:
        self._edition = edition
        self._microseconds = microseconds
        self._entry = entry

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch of the edited program."""
        launch = self._launch(problem, self._microseconds)
        source = Edited("convfind.testing", "kernels/mock.cl", self._edition)
        program = replace(launch.kernel.program, source=source)
        kernel = replace(launch.kernel, program=program, entry=self._entry)
        return Recipe(self.solver_id, (replace(launch, kernel=kernel),))


def test_a_quarantine_tells_what_when_and_how_it_ends(bench: Any, problem: Any) -> None:
    bench.open("mock-dynamic", extra=[Editable(1)]).find(problem, mode="normal")
    handle = bench.open("mock-dynamic", extra=[Editable(1)])
    found = handle.find(problem, mode="normal", enforce="DB_UPDATE")
    why = found.rejected["mock-editable"]
    assert why.reason is Reason.QUARANTINED
    (record,) = handle.database.quarantined(handle.target, problem)
    assert "wrong-result: error" in why.detail
    assert why.detail.startswith("on 20")
    assert "another version or kernel is tried again" in why.detail
    assert why.detail.endswith("`convfind db quarantine lift --solver mock-editable` lifts it")
    assert record.source_hash == Edited("", "", 1).digest


def test_a_quarantine_ends_with_its_kernel(bench: Any, problem: Any) -> None:
    bench.open("mock-dynamic", extra=[Editable(1)]).find(problem, mode="normal")
    mended = bench.open("mock-dynamic", extra=[Editable(2, 10, "mock_convolution")])
    assert mended.find(problem, mode="normal", enforce="DB_UPDATE").best.solver == "mock-editable"
    wrong_again = bench.open("mock-dynamic", extra=[Editable(3)])
    found = wrong_again.find(problem, mode="normal", enforce="DB_UPDATE")
    assert found.rejected["mock-editable"].reason is Reason.WRONG_RESULT


def test_a_record_of_another_kernel_does_not_answer(bench: Any, problem: Any) -> None:
    slow, fast = (Editable(n, us, "mock_convolution") for n, us in ((1, 90), (2, 10)))
    first = bench.open("mock-dynamic", extra=[slow]).find(problem)
    assert first.best.time_ms == pytest.approx(0.09)
    again = bench.open("mock-dynamic", extra=[slow]).find(problem)
    assert (again.measured, again.best.time_ms) == (0, first.best.time_ms)
    edited = bench.open("mock-dynamic", extra=[fast]).find(problem)
    assert (edited.measured, edited.best.time_ms) == (1, pytest.approx(0.01))
    assert bench.open("mock-dynamic", extra=[fast]).find(problem).measured == 0


# -- binaries -------------------------------------------------------------------------------------


@pytest.fixture
def saved(bench: Any, problem: Any, tmp_path: Path) -> Path:
    """A solution with its binaries, saved."""
    handle = bench.open("mock-dynamic")
    (solution,) = handle.miopen.find_solutions(
        problem, FindOptions(attach_binaries=True, mode="NORMAL")
    )
    assert len(solution.binaries) == 1
    solution.save(tmp_path / "with.json")
    return tmp_path / "with.json"


def elsewhere(bench: Any, folder: Path) -> Any:
    """Open a handle that has compiled nothing yet."""
    bench.folder = folder
    bench.backend.counters.compiles = 0
    return bench.open("mock-dynamic", "mock-static")


def test_binaries_of_a_file_are_left_there(bench: Any, saved: Path, tmp_path: Path) -> None:
    solution = convfind.Solution.load(saved)
    assert solution.binaries == ()
    elsewhere(bench, tmp_path / "other").prepare(solution)
    assert bench.backend.counters.compiles == 1


def test_binaries_are_used_on_request_and_by_nobody_else(
    bench: Any, problem: Any, saved: Path, tmp_path: Path
) -> None:
    solution = convfind.Solution.load(saved, binaries=True)
    handle = elsewhere(bench, tmp_path / "other")
    handle.prepare(solution)
    handle.bind(solution, w=np.zeros((8, 4, 3, 3), np.float32))
    assert bench.backend.counters.compiles == 0
    # The same program without the file's binary is compiled, in this process and in the next.
    assert handle.session.kernels.pending(handle.prepare(solution).recipe.programs) == 1
    handle.prepare(replace(solution, binaries=()))
    assert bench.backend.counters.compiles == 1


def test_binaries_of_other_programs_are_not_looked_at(
    bench: Any, problem: Any, tensors: Any, saved: Path, tmp_path: Path
) -> None:
    handle = elsewhere(bench, tmp_path / "other")
    others = handle.find(problem, mode="normal", solvers=["mock-static"]).best
    (program,) = handle.prepare(others).recipe.programs
    key = program.key(handle.target.compiler)
    ((own, _),) = convfind.Solution.load(saved, binaries=True).binaries
    evil = replace(convfind.Solution.load(saved), binaries=((key, b"evil"), (own, b"evil")))
    handle = elsewhere(bench, tmp_path / "third")
    expected = reference_convolution(problem, *tensors.values())
    for solution in (evil, others):
        result = handle.run(solution, **tensors)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    store = handle.session.kernels
    assert b"evil" not in dict(store.binaries([program])).values()
