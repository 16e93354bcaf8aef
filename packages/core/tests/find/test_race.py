"""The race of a find: who is compiled and measured, who is left out, and for how long."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections import Counter
from typing import Any, ClassVar

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.find.forecast import INDEX, Forecast, Source
from convfind.find.known import Known, combined
from convfind.find.race import COMPILED_MARGIN, DECLINED_MARGIN, READY_MARGIN, Race
from convfind.find.result import FindOrigin
from convfind.finddb import FindEntry, FindRecord
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import Solver, versioned_id
from convfind.solver.recipe import Launch
from convfind.testing import MockSolver
from convfind.testing.mock_backend import MOCK_TARGET
from convfind.testing.solvers import MockFused, MockTimed
from convfind.types import Algorithm

FAST, CLOSE, SLOW = (
    MockTimed("fast", 50, 0.9),
    MockTimed("close", 52, 0.8),
    MockTimed("slow", 500, 0.09),
)
UNKNOWN = MockTimed("unknown", 40)
FIELD = (SLOW, CLOSE, FAST)


def outrun(found: Any) -> set[str]:
    return {solver for solver, why in found.rejected.items() if why.reason is Reason.OUTRUN}


@pytest.mark.parametrize("runs", range(1, 40, 3))
def test_who_fails_after_some_runs_is_lost_alone(
    bench: Any, problem: ConvProblem, runs: int
) -> None:
    left = [runs]

    def fails(launch: Launch) -> bool:
        if dict(launch.kernel.program.defines).get("MICROSECONDS") != FAST.microseconds:
            return False
        left[0] -= 1
        return left[0] < 0

    bench.backend.faults.launch = fails
    found = bench.open("mock-static", extra=FIELD).find(problem)
    names = [one.solver for one in found.solutions]
    assert "close" in names
    assert ("fast" in names) != ("fast" in found.rejected)


@pytest.mark.parametrize("mode", ["HYBRID", "NORMAL"])
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("own", [45, 80, 400])
def test_first_calls_of_a_library_that_loads_its_kernels_do_not_count(
    bench: Any, problem: ConvProblem, mode: str, calls: int, own: int
) -> None:
    library, runs = MockTimed("library", own), Counter[int]()

    def before(launch: Launch) -> bool:
        time = int(dict(launch.kernel.program.defines).get("MICROSECONDS", 0))
        runs[time] += 1
        loads = time == own and runs[time] <= calls
        bench.backend.faults.slowdown = 93.0 if loads else 1.0
        return False

    bench.backend.faults.launch = before
    handle = bench.open("mock-static", extra=(FAST, library))
    found = handle.find(problem, mode)
    times = {one.solver: one.time_ms for one in found.solutions}
    assert found.best.solver == min((FAST, library), key=lambda one: one.microseconds).solver_id
    assert (times["fast"], times["library"]) == pytest.approx((0.05, own / 1000))
    recorded = handle.database.times(handle.target.identity, problem)
    assert recorded["library@1"] == pytest.approx(own / 1000)


def test_who_cannot_win_is_neither_compiled_nor_measured(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-static", extra=FIELD).find(problem)
    assert (found.compiled, found.measured) == (2, 2)
    assert [one.solver for one in found.solutions] == ["fast", "close"]
    assert outrun(found) == {"slow"}
    detail = found.rejected["slow"].detail
    assert detail.startswith("predicted 0.5 ms +-"), detail
    assert detail.endswith("by index, best 0.05 ms")


@pytest.mark.slow
@pytest.mark.parametrize("index", [sys.float_info.min, sys.float_info.max])
def test_an_index_may_be_any_number(bench: Any, index: float) -> None:
    problem = ConvProblem.forward((16, 64, 56, 56), (64, 64, 3, 3))
    field = (MockTimed("one", 50, index), MockTimed("other", 60, index))
    found = bench.open("mock-static", extra=field).find(problem)
    assert found.solutions[0].solver in {"one", "other"}


@pytest.mark.parametrize(
    "more", [{"mode": "NORMAL"}, {"race": False}, {"solvers": ["fast", "slow"]}]
)
def test_a_find_that_is_to_measure_all_does(
    bench: Any, problem: ConvProblem, more: dict[str, Any]
) -> None:
    found = bench.open("mock-static", extra=FIELD).find(problem, **more)
    assert "slow" in {one.solver for one in found.solutions}


def test_nothing_that_was_left_out_is_looked_at_again_by_a_find_that_races(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open("mock-static", extra=FIELD).find(problem)
    again = bench.open("mock-static", extra=FIELD).find(problem)
    assert (again.origin, again.compiled, again.measured) == (FindOrigin.USER_DB, 0, 0)


def test_what_was_left_out_is_measured_by_a_find_that_is_to_measure_all(
    bench: Any, problem: ConvProblem
) -> None:
    bench.open("mock-static", extra=FIELD).find(problem)
    later = bench.open("mock-static", extra=FIELD).find(problem, race=False)
    assert later.measured == 1
    assert {one.solver for one in later.solutions} == {"fast", "close", "slow"}


def test_a_solver_of_which_nothing_is_known_always_runs(bench: Any, problem: ConvProblem) -> None:
    found = bench.open("mock-static", extra=(*FIELD, UNKNOWN)).find(problem)
    assert found.best.solver == "unknown"


def test_what_is_faster_than_anything_known_keeps_out_even_more(
    bench: Any, problem: ConvProblem
) -> None:
    found = bench.open("mock-static", extra=(*FIELD, UNKNOWN)).find(problem)
    assert outrun(found) == {"slow"}
    assert found.rejected["slow"].detail.endswith("best 0.04 ms")


def test_where_the_favourites_fail_the_others_run(bench: Any, problem: ConvProblem) -> None:
    bench.backend.faults.build = lambda program: dict(program.defines)["MICROSECONDS"] != 500
    found = bench.open("mock-static", extra=FIELD).find(problem)
    assert found.best.solver == "slow"
    assert found.rejected["fast"].reason is Reason.BUILD_FAILED


def test_a_solver_that_promises_too_much_does_not_keep_others_out(
    bench: Any, problem: ConvProblem
) -> None:
    boaster = MockTimed("boaster", 5000, 0.9)
    modest = (
        MockTimed("modest", 50, 0.2),
        MockTimed("humble", 40, 0.19),
        MockTimed("slow", 90, 0.02),
    )
    found = bench.open("mock-static", extra=(boaster, *modest)).find(problem)
    assert found.best.solver == "humble"
    assert outrun(found) == {"slow"}


def test_who_is_far_behind_has_a_checked_sample_a_timed_one_and_one_next_to_the_best(
    bench: Any, problem: ConvProblem
) -> None:
    behind, close = MockTimed("behind", 500), MockTimed("close", 52)
    runs: Counter[Any] = Counter()

    def count(launch: Launch) -> bool:
        runs[dict(launch.kernel.program.defines).get("MICROSECONDS")] += 1
        return False

    bench.backend.faults.launch = count
    found = bench.open("mock-static", extra=(FAST, close, behind)).find(problem)
    assert {one.solver: one.samples for one in found.solutions} == {
        "fast": 4,
        "close": 4,
        "behind": 3,
    }
    checked, timed, look, rounds, winner = 1, 1, 1, 4, 1
    assert runs == {
        500: checked + timed + look,
        52: checked + timed + rounds,
        50: checked + timed + look + rounds + winner,
    }


def test_who_has_nobody_to_run_against_is_not_timed_for_long(
    bench: Any, problem: ConvProblem
) -> None:
    found = bench.open("mock-static", extra=(FAST, MockTimed("behind", 500))).find(problem)
    assert found.best.solver == "fast"
    assert found.best.samples == 3


def test_programs_that_are_ready_run_where_others_would_not_be_compiled(
    bench: Any, problem: ConvProblem
) -> None:
    near = MockTimed("near", 45, 0.7)
    field = (FAST, CLOSE, near)
    assert outrun(bench.open("mock-static", extra=field).find(problem)) == {"near"}
    bench.open("mock-static", extra=[near]).find(problem.with_batch(3))
    found = bench.open("mock-static", extra=field).find(problem.with_batch(5))
    assert found.best.solver == "near"


def recorded(bench: Any, problem: ConvProblem, times: dict[Solver, float]) -> None:
    handle = bench.open("mock-static")
    records = tuple(
        FindRecord(
            solver=solver.solver_id,
            solver_version=solver.version,
            package="mock 1",
            algorithm="direct",
            time_ms=time,
        )
        for solver, time in sorted(times.items(), key=lambda item: item[1])
    )
    names = tuple(map(versioned_id, times))
    handle.database.store(handle.target, problem, FindEntry(records=records, considered=names))


def test_the_record_of_another_batch_size_says_who_is_ahead(
    bench: Any, problem: ConvProblem
) -> None:
    silent = (MockTimed("a", 50), MockTimed("b", 500), MockTimed("c", 400))
    recorded(bench, problem.with_batch(4), dict(zip(silent, (1.0, 9.0, 8.0), strict=True)))
    found = bench.open("mock-static", extra=silent).find(problem)
    assert (found.compiled, [one.solver for one in found.solutions]) == (1, ["a"])
    assert "record of another batch size" in found.rejected["b"].detail


# -- problems with an epilogue ------------------------------------------------------------------


class Fused(MockFused):
    """Knows epilogues."""

    is_dynamic = True
    algorithm: ClassVar[Any] = MockSolver.algorithm

    def __init__(self, name: str, microseconds: int) -> None:
        self.solver_id = name
        self._microseconds = microseconds

    @property
    def microseconds(self) -> int:  # type: ignore[override]
        return self._microseconds


PLAIN = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3), padding=1)
FUSED = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3), padding=1, bias=True)


def test_a_fused_problem_is_run_by_the_best_three_of_the_plain_one(bench: Any) -> None:
    field = [Fused(f"fused-{rank}", 40 + 2 * rank) for rank in range(12)]
    full = bench.open("mock-static", extra=field).find(PLAIN)
    assert full.measured == 12
    found = bench.open("mock-static", extra=field).find(FUSED)
    assert found.measured == 3
    assert [one.solver for one in found.solutions] == ["fused-0", "fused-1", "fused-2"]
    assert outrun(found) == {one.solver_id for one in field[3:]}
    why = "not among the best of the plain problem: fused-0 and fused-1 and fused-2"
    assert why in found.rejected["fused-9"].detail


def test_a_fused_problem_is_not_run_by_who_is_far_behind_without_the_epilogue(bench: Any) -> None:
    field = [Fused("first", 40), Fused("near", 43), Fused("far", 46)]
    assert bench.open("mock-static", extra=field).find(PLAIN).measured == 3
    found = bench.open("mock-static", extra=field).find(FUSED)
    assert [one.solver for one in found.solutions] == ["first", "near"]
    assert outrun(found) == {"far"}


def test_who_has_no_epilogue_inside_shuts_nobody_out_who_has(bench: Any) -> None:
    field = [MockTimed("quick", 30), Fused("inside", 50), MockTimed("slow", 65)]
    assert bench.open("mock-static", extra=field).find(PLAIN).measured == 3
    found = bench.open("mock-static", extra=field).find(FUSED)
    assert found.best.solver == "inside"
    tried = found.rejected["quick+epilogue"]
    assert tried.reason is Reason.LAUNCH_FAILED, "the mock device has no such step"
    assert outrun(found) == {"slow+epilogue"}


def test_without_a_record_of_the_plain_problem_a_fused_one_is_raced_as_any(bench: Any) -> None:
    field = [Fused(f"fused-{rank}", 40 + 10 * rank) for rank in range(5)]
    fused = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3), padding=1, bias=True)
    assert bench.open("mock-static", extra=field).find(fused).measured == 5


# -- several problems ---------------------------------------------------------------------------


def test_what_is_compiled_ahead_is_what_the_finds_would_compile(
    bench: Any, problem: ConvProblem
) -> None:
    problems = [problem.with_batch(size) for size in (1, 2, 3)]
    handle = bench.open("mock-static", extra=FIELD)
    assert handle.compile_ahead(problems) == 2
    found = [handle.find(one) for one in problems]
    assert [one.compiled for one in found] == [0, 0, 0]
    assert handle.compile_ahead(problems) == 0, "a find that answers compiles nothing"


def test_a_network_leaves_out_programs_that_save_it_next_to_nothing(
    bench: Any, problem: ConvProblem
) -> None:
    once = dataclasses.replace(problem, alpha=2.0)  # only the first problem knows `Single`

    class Single(MockTimed):
        def wti(self, other: ConvProblem, target: Target) -> float | None:
            return super().wti(other, target) if other.alpha == 2.0 else 0.01

    field = (FAST, CLOSE, Single("single", 48, 0.91))
    alone = bench.open("mock-static", extra=field).find(once.with_batch(9))
    assert alone.best.solver == "single"
    network = [once, *(problem for _ in range(50))]
    handle = bench.open("mock-static", extra=field, disable_binary_cache=True)
    assert handle.compile_ahead(network) == 2
    found = handle.find(once)
    assert (found.best.solver, found.compiled) == ("fast", 0)
    assert outrun(found) == {"single"}


def test_compiling_ahead_ends_with_its_time_budget(bench: Any, problem: ConvProblem) -> None:
    problems = [problem.with_batch(size) for size in (1, 2, 3)]
    assert bench.open("mock-static", extra=FIELD).compile_ahead(problems, time_budget=0) == 0
    assert bench.open("mock-static", extra=FIELD).compile_ahead(problems, time_budget=1e6) == 2


# -- forecasts ----------------------------------------------------------------------------------


def test_a_better_source_counts_more() -> None:
    sure = Source("sure", 0.1, {"a": 1.0, "b": 2.0})
    unsure = Source("unsure", 0.3, {"a": 2.0, "b": 1.0})
    found = combined([unsure, sure])
    assert found["a"].time_ms < found["b"].time_ms
    assert (found["a"].error, found["a"].source) == (0.1, "sure")


def test_sources_of_other_scales_agree_by_what_both_know() -> None:
    found = combined(
        [Source("ms", 0.1, {"a": 1.0, "b": 2.0}), Source("x", 0.3, {"a": 10.0, "b": 20.0, "c": 40})]
    )
    assert found["c"].time_ms == pytest.approx(4.0)
    assert found["b"].time_ms == pytest.approx(2.0)


def test_times_that_are_no_times_are_no_forecast() -> None:
    bad = {"a": 0.0, "b": -1.0, "c": math.inf, "d": math.nan}
    assert combined([Source("x", 0.1, bad)]) == {}
    index = combined([Source("index", 0.3, {"a": 1.0, "b": 2.0})])
    assert combined([Source("x", 0.1, bad), Source("index", 0.3, {"a": 1.0, "b": 2.0})]) == index


def race(times: dict[str, float], *, ready: bool = False) -> Race:
    forecasts = {name: Forecast(time, 0.2, "x") for name, time in times.items()}
    return Race(Known(forecasts), lambda solver: READY_MARGIN if ready else COMPILED_MARGIN)


@pytest.mark.parametrize(
    ("behind", "ready", "runs"),
    [(0.09, False, True), (0.11, False, False), (0.19, True, True), (0.21, True, False)],
)
def test_how_far_behind_a_solver_may_be(behind: float, ready: bool, runs: bool) -> None:
    times = {"fast": 1.0, "slow": math.exp(behind)}
    able, unable = race(times, ready=ready).contenders([FAST, SLOW], {})
    assert able == ([FAST, SLOW] if runs else [FAST])
    assert set(unable) == (set() if runs else {"slow"})


@pytest.mark.parametrize(("ready", "known", "runs"), [(1, 1, False), (1, 0, True), (0, 1, True)])
def test_lessons_decide_about_solvers_that_are_ready_and_well_known(
    ready: int, known: int, runs: bool
) -> None:
    before = {"fast": Forecast(1.0, 0.2, "x"), "close": Forecast(1.05, 0.2, "x")}
    lessons = {"fast": Forecast(1.0, 0.1, "x"), "close": Forecast(1.5, 0.1, "x")}
    names = frozenset({"fast", "close"} if known else ())
    facts = Known(lessons, uncorrected=before, well_known=names)
    field = Race(facts, lambda solver: READY_MARGIN if ready else COMPILED_MARGIN)
    able, _ = field.contenders([CLOSE], {"fast": 7.0})
    assert able == ([CLOSE] if runs else [])


def test_forecasts_are_brought_to_the_scale_of_what_was_measured() -> None:
    field = race({"fast": 1.0, "close": 1.05, "slow": 2.0})
    able, _ = field.contenders([CLOSE, SLOW], {"fast": 7.0})
    assert able == [CLOSE]


def test_a_session_learns_who_promises_too_much(bench: Any, problem: ConvProblem) -> None:
    handle = bench.open("mock-static", extra=(FAST, CLOSE, MockTimed("boaster", 150, 0.88)))
    raced = [handle.find(problem.with_batch(batch)) for batch in (3, 5, 7, 11, 13)]
    assert [found.measured for found in raced] == [3, 3, 3, 2, 2]
    assert "predicted" in raced[-1].rejected["boaster"].detail
    later = [handle.find(problem.with_batch(batch)).measured for batch in (17, 19, 23)]
    assert 3 in later, "it is given another chance"


def test_a_gpu_times_candidates_while_others_are_compiled(bench: Any, problem: ConvProblem) -> None:
    gpu = dataclasses.replace(MOCK_TARGET, kind=DeviceKind.GPU)
    bench.backend.devices = (gpu,)
    found = bench.open("mock-static", extra=(*FIELD, UNKNOWN)).find(problem, "HYBRID")
    assert {one.solver for one in found.solutions} >= {"unknown", "fast", "close"}
    assert outrun(found) == {"slow"}


def test_a_cpu_measures_who_is_ready_before_it_compiles(bench: Any, problem: ConvProblem) -> None:
    first, ready = MockTimed("first", 50, 0.9), MockTimed("ready", 40, 0.89)
    handle = bench.open("mock-static", extra=(first, ready))
    handle.session.kernels.load_or_raise(ready.solution(problem, handle.target).programs)
    stages: list[tuple[str, str]] = []
    found = handle.find(
        problem, on_progress=lambda stage, done, total, label: stages.append((stage, label))
    )
    assert (found.best.solver, found.compiled) == ("ready", 1)
    assert stages.index(("measure", "ready")) < stages.index(("compile", ""))
    assert stages.index(("compile", "")) < stages.index(("measure", "first"))


@pytest.mark.parametrize(("lead", "runs"), [(0.9, False), (0.8, True)])
def test_a_small_lead_is_worth_no_program_however_sure_it_is(lead: float, runs: bool) -> None:
    times = {FAST.solver_id: 1.0, CLOSE.solver_id: lead}
    forecasts = {name: Forecast(time, 0.05, "record") for name, time in times.items()}

    def margin(solver: Solver) -> float:
        return READY_MARGIN if solver is FAST else DECLINED_MARGIN

    able, _ = Race(Known(forecasts), margin).contenders([CLOSE], {FAST.solver_id: 1.0})
    assert able == ([CLOSE] if runs else [])


@pytest.mark.parametrize(
    ("ready", "second"), [((), CLOSE), ((SLOW,), SLOW), ((CLOSE, SLOW), CLOSE)]
)
def test_the_second_word_is_that_of_a_solver_that_is_ready(
    ready: tuple[Solver, ...], second: Solver
) -> None:
    times = {FAST.solver_id: 1.0, CLOSE.solver_id: 3.0, SLOW.solver_id: 9.0}
    forecasts = {name: Forecast(time, 0.3, INDEX) for name, time in times.items()}

    def margin(solver: Solver) -> float:
        return READY_MARGIN if solver in ready else COMPILED_MARGIN

    able, _ = Race(Known(forecasts), margin).contenders([CLOSE, SLOW], {FAST.solver_id: 1.0})
    assert able == [second]


@pytest.mark.parametrize("ready", [False, True])
def test_another_algorithm_has_the_second_word(ready: bool) -> None:
    times = {FAST.solver_id: 1.0, CLOSE.solver_id: 3.0, SLOW.solver_id: 9.0}
    forecasts = {name: Forecast(time, 0.3, INDEX) for name, time in times.items()}
    alike = dict.fromkeys((FAST.solver_id, CLOSE.solver_id), Algorithm.IMPLICIT_GEMM)
    known = Known(forecasts, algorithms={**alike, SLOW.solver_id: Algorithm.DIRECT})

    def margin(solver: Solver) -> float:
        return READY_MARGIN if ready and solver is CLOSE else COMPILED_MARGIN

    able, _ = Race(known, margin).contenders([CLOSE, SLOW], {FAST.solver_id: 1.0})
    assert able == [CLOSE if ready else SLOW]


@pytest.mark.parametrize("false", [1e-300, 1e-6, 1e7, 1e300])
def test_a_false_time_is_no_evidence_about_its_solver_and_none_about_the_others(
    false: float,
) -> None:
    index = Source(INDEX, 0.3, {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0})
    times = {"b": 20.0, "c": 30.0, "d": 40.0}
    found = combined([Source("record", 0.1, {"a": false} | times), index])
    assert set(found) == {"b", "c", "d"}, "of a nothing is known, so that it runs"
    assert {name: one.time_ms for name, one in found.items()} == pytest.approx(times)
    lied = combined(
        [
            Source("record", 0.1, {"a": 10.0} | times),
            index._replace(times={**index.times, "a": false}),
        ]
    )
    assert set(lied) == {"b", "c", "d"}
