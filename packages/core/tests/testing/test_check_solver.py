"""The conformance kit finds each sin of a solver, and names the problem."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.problem.traits import FIRST_TRAITS
from convfind.reasons import Reason
from convfind.solver import Domain
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe
from convfind.solver.search_space import Parameter, SearchSpace
from convfind.testing import (
    MockBackend,
    MockDevice,
    MockSolver,
    assert_solver,
    check_solver,
    edge_cases,
    fused,
)
from convfind.testing.mock_functions import MOCK_FUNCTIONS, mock_convolution, mock_fused
from convfind.testing.solvers import (
    MockDynamic,
    MockFused,
    MockHungry,
    MockPacking,
    MockTimed,
    MockTunable,
)
from convfind.testing.tensors import Bytes
from convfind.types import DataType, Direction

pytestmark = pytest.mark.slow

PLAIN = ConvProblem.forward((2, 4, 5, 6), (6, 4, 3, 3), padding=1)
GAPS = ConvProblem.forward((2, 4, 5, 6), (6, 4, 3, 3), y_strides=(200, 30, 10, 2))
ADDING = ConvProblem.forward((2, 4, 5, 6), (6, 4, 3, 3), beta=1.0)


def failed_checks(
    solver: MockSolver,
    *problems: ConvProblem,
    kernel: Callable[..., None] | None = None,
) -> dict[str, str]:
    """Check a solver whose kernel does as it is told; return the details of failures by check."""
    functions = dict(MOCK_FUNCTIONS)
    if kernel is not None:
        functions[solver.entry] = kernel
    device = MockDevice(functions=functions)
    report = check_solver(solver, device, shapes=problems or (PLAIN,), every_variant=False)
    assert report.ok == (not report.failures)
    return {failure.check: failure.detail for failure in report.failures}


def surroundings(memory: Bytes) -> tuple[Bytes, int]:
    """The whole buffer that a kernel's argument points into, and where it points."""
    base = cast(Bytes, memory.base)
    return base, memory.__array_interface__["data"][0] - base.__array_interface__["data"][0]


def test_a_sound_solver_passes() -> None:
    assert failed_checks(MockDynamic(), PLAIN, GAPS, ADDING) == {}


# -- what kernels do wrong ------------------------------------------------------------------------


def test_a_write_behind_the_end_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        y[PLAIN.nbytes("y")] = 0

    assert failed_checks(MockDynamic(), kernel=kernel)["random data"] == "wrote behind the end of y"


def test_a_write_before_the_start_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        base, start = surroundings(y)
        base[start - 1] = 0

    checks = failed_checks(MockDynamic(), kernel=kernel)
    assert checks["random data"] == "wrote before the start of y"


def test_a_read_behind_the_end_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        size = PLAIN.nbytes("x")
        y[:4].view(np.float32)[...] += 0 * x[size : size + 4].view(np.float32)

    assert "is over the bound" in failed_checks(MockDynamic(), kernel=kernel)["random data"]


def test_a_changed_input_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        w[0] += 1

    for solver in (MockDynamic(), MockTimed("another", 20)):  # which share the numbers
        checks = failed_checks(solver, kernel=kernel)
        assert checks["random data"] == "changed w, which it only reads"
    assert not failed_checks(MockDynamic())


def test_a_write_into_gaps_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        y[4] = 0  # the second element: every other one is a gap

    checks = failed_checks(MockDynamic(), GAPS, kernel=kernel)
    assert checks["random data"] == "wrote into the gaps of y"


def test_an_unwritten_element_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        before = y[:4].copy()
        mock_convolution(x, w, y, *rest)
        y[:4] = before

    assert "max inf" in failed_checks(MockDynamic(), kernel=kernel)["random data"]


def test_a_result_that_is_slightly_off_is_seen_on_whole_numbers() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        out = y[: PLAIN.nbytes("y")].view(np.float32)
        out += np.spacing(out)

    checks = failed_checks(MockDynamic(), kernel=kernel)
    assert list(checks) == ["whole numbers"]
    assert "elements of y differ, the first at (0, 0, 0, 0)" in checks["whole numbers"]


def test_scratch_memory_that_is_read_before_it_is_written_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, scratch: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest[1:])
        y[:4].view(np.float32)[...] += scratch[:4].view(np.float32)

    assert "max inf" in failed_checks(MockHungry(), kernel=kernel)["random data"]


def test_results_that_change_from_run_to_run_are_seen() -> None:
    runs = threading.Lock(), [0]

    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        runs[1][0] += 1
        out = y[: PLAIN.nbytes("y")].view(np.float32)
        if runs[1][0] % 2:
            out[...] = np.nextafter(out, np.float32(np.inf))

    assert failed_checks(MockDynamic(), kernel=kernel)["determinism"].startswith("gives other bits")


def test_packed_weights_that_do_not_survive_a_run_are_seen() -> None:
    def kernel(x: Bytes, packed: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, packed, y, *rest)
        packed[:4] = 0

    assert list(failed_checks(MockPacking(), kernel=kernel)) == ["bound weights"]


def test_a_write_far_behind_large_memory_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, scratch: Bytes, size: int, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        scratch[int(size) + 400_000] = 0

    checks = failed_checks(MockHungry(), kernel=kernel)
    assert checks["random data"] == "wrote behind the end of workspace"


def test_what_a_run_leaves_for_the_next_is_seen() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, scratch: Bytes, size: int, *rest: Any) -> None:
        known, kept = scratch[:4].view(np.int32), scratch[4:][: w.size]
        if known[0] != 1234:  # packs the weights once, and finds them packed from then on
            known[0] = 1234
            kept[...] = w
        mock_convolution(x, kept, y, *rest)

    assert list(failed_checks(MockHungry(), kernel=kernel)) == ["other data"]


def test_what_is_added_may_lie_in_the_result() -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, z: Bytes, *words: Any) -> None:
        y[: z.size] = 0xFF  # before z is read, which is right only if it lies elsewhere
        mock_fused(x, w, y, z, *words)

    fused = ConvProblem.forward((2, 4, 5, 6), (6, 4, 3, 3), add=True, beta=1.0, activation="relu")
    assert failed_checks(MockFused(), fused) == {}
    assert list(failed_checks(MockFused(), fused, kernel=kernel)) == ["z in the result"]


def test_a_failing_launch_is_reported() -> None:
    device = MockDevice()
    device.faults.launch = lambda step: True
    report = check_solver(MockDynamic(), device, shapes=[PLAIN], every_variant=False)
    assert [(failure.check, failure.problem) for failure in report.failures] == [
        ("random data", PLAIN.key)
    ]
    assert "LaunchError" in report.failures[0].detail


# -- what descriptions do wrong -------------------------------------------------------------------


class Raising(MockDynamic):
    """Raises where it should refuse."""

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Divide by zero for wide padding."""
        narrow = 8 // max(0, 8 - problem.padding[0])
        return APPLICABLE if narrow else Rejected(Reason.PADDING)


class Moody(MockDynamic):
    """Answers differently each time, and remembers."""

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Refuse the second time."""
        self.asked = not getattr(self, "asked", False)
        return APPLICABLE if self.asked else Rejected(Reason.DIRECTION)


class Nonsense(MockDynamic):
    """Answers with a plain boolean."""

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Answer True."""
        return cast(Applicability, True)


class Boundless(MockDynamic):
    """Says of a word that problems do not have that it takes it, and of nothing where."""

    domain = Domain(kinds=(), ranks=(2, 4), traits=FIRST_TRAITS | {"curved-space"})


class Slow(MockDynamic):
    """Thinks for long."""

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Add up numbers: some hundred times as long as making a problem takes."""
        return APPLICABLE if sum(range(1_000_000)) else Rejected(Reason.DIRECTION)


class Roundabout(MockDynamic):
    """Calls for little."""

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Add up few numbers, one call each."""
        return APPLICABLE if sum(n for n in range(1_100)) else Rejected(Reason.DIRECTION)


class Greedy(MockHungry):
    """Uses more than it announces."""

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Announce half."""
        return self.workspace // 2


class Deaf(MockHungry):
    """Says that it keeps the limit, and does not."""

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Announce the limit."""
        return self.workspace if limit is None else min(limit, self.workspace)


class Altered(MockDynamic):
    """Spoils the solution of a sound solver in some way."""

    def __init__(self, change: Callable[[Recipe, ConvProblem], Recipe]) -> None:
        self._change = change

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Change what the sound one says."""
        return self._change(super().solution(problem, target, config, workspace_limit), problem)


def with_program(solution: Recipe, **changes: Any) -> Recipe:
    """Change the program of the only launch."""
    (launch,) = solution.steps
    assert isinstance(launch, Launch)
    program = replace(launch.kernel.program, **changes)
    kernel = KernelSpec(program, launch.kernel.entry)
    return replace(solution, steps=(replace(launch, kernel=kernel),))


class BadDefault(MockTunable):
    """Its default is not in its space."""

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Two large tiles."""
        return SearchSpace((Parameter("tile", (2, 4)),))


class Generous(MockDynamic):
    """Allows itself any error."""

    def error_bound(self, problem: ConvProblem) -> float:
        """More than there can be."""
        return 1e12


class BadName(MockDynamic):
    """Its id is not well-formed."""

    solver_id = "Mock_Dynamic"
    version = 0


def test_an_exception_in_applicability_is_reported() -> None:
    assert "ZeroDivisionError" in failed_checks(Raising())["never raises"]


def test_state_and_changing_answers_are_reported() -> None:
    assert {"stateless", "pure"} <= set(failed_checks(Moody()))


def test_answers_outside_the_vocabulary_are_reported() -> None:
    assert "answered True" in failed_checks(Nonsense())["applicability"]


def test_domains_of_words_that_problems_do_not_have_are_reported() -> None:
    report = check_solver(Boundless(), MockDevice(), shapes=[PLAIN], every_variant=False)
    details = [failure.detail for failure in report.failures if failure.check == "domain"]
    assert details == [
        "no traits of problems: curved-space",
        "no numbers of spatial dimensions: {4}",
        "kinds is empty, so it takes nothing",
    ]


def test_a_domain_that_is_none_is_reported() -> None:
    class Vague(MockDynamic):
        domain = cast(Domain, "all")

    assert failed_checks(Vague()) == {"domain": "'all' is not a Domain"}


def test_a_solver_that_takes_what_it_cannot_know_is_reported() -> None:
    class Everything(frozenset[str]):
        """All words that there will ever be."""

        def __ge__(self, other: object) -> bool:
            return True

    class Greediest(MockDynamic):
        domain = Domain()

    object.__setattr__(Greediest.domain, "traits", Everything())
    assert "that it cannot know" in failed_checks(Greediest())["domain"]


def test_slow_answers_are_reported() -> None:
    found = failed_checks(Slow())
    assert list(found) == ["applicability is quick"]
    assert "problems" in found["applicability is quick"]


def test_answers_of_many_calls_are_reported() -> None:
    found = failed_checks(Roundabout())
    assert list(found) == ["applicability is quick"]
    assert "calls of functions" in found["applicability is quick"]


def test_understated_workspace_is_reported() -> None:
    assert "says 524288, the solution 1048576" in failed_checks(Greedy())["workspace size"]


def test_an_ignored_limit_is_reported() -> None:
    detail = failed_checks(Deaf())["workspace limit"]
    assert "under 524288 bytes workspace_size says 524288, the solution 1048576" in detail


def test_programs_that_change_with_the_size_are_reported() -> None:
    def change(solution: Recipe, problem: ConvProblem) -> Recipe:
        return with_program(solution, defines=(("H", problem.x_shape[2]),))

    assert "compiles another program for" in failed_checks(Altered(change))["dynamic"]


def test_missing_sources_are_reported() -> None:
    def change(solution: Recipe, problem: ConvProblem) -> Recipe:
        return with_program(solution, source=KernelSource("convfind.testing", "kernels/none.cl"))

    assert "FileNotFoundError" in failed_checks(Altered(change))["solution"]


def test_malformed_defines_are_reported() -> None:
    def change(solution: Recipe, problem: ConvProblem) -> Recipe:
        return with_program(solution, defines=(("lower", 1),))

    assert "'lower' is not an upper-case" in failed_checks(Altered(change))["solution"]


def test_a_solution_of_another_solver_is_reported() -> None:
    checks = failed_checks(Altered(lambda solution, _: replace(solution, solver="mock-other")))
    assert "'mock-other'" in checks["solution id"]


def test_launches_that_do_not_divide_are_reported() -> None:
    def change(solution: Recipe, problem: ConvProblem) -> Recipe:
        (launch,) = solution.steps
        assert isinstance(launch, Launch)
        return replace(solution, steps=(replace(launch, local_size=(2,)),))

    assert "(2,) do not divide (1,)" in failed_checks(Altered(change))["launch"]


def test_solutions_that_cannot_travel_are_reported() -> None:
    class Local(Program):
        """A class that pickle cannot find."""

    def change(solution: Recipe, problem: ConvProblem) -> Recipe:
        (launch,) = solution.steps
        assert isinstance(launch, Launch)
        program = Local(launch.kernel.program.source)
        kernel = KernelSpec(program, launch.kernel.entry)
        return replace(solution, steps=(replace(launch, kernel=kernel),))

    assert "pickle" in failed_checks(Altered(change))["solution"]


def test_an_illegal_default_config_is_reported() -> None:
    assert "tile is 1, not one of (2, 4)" in failed_checks(BadDefault())["default config"]


def test_a_bound_that_allows_everything_is_reported() -> None:
    assert "error_bound is 1e+12; for" in failed_checks(Generous())["error bound"]


def test_malformed_identity_is_reported() -> None:
    assert {"id", "version"} <= set(failed_checks(BadName()))


# -- the report -----------------------------------------------------------------------------------


class FloatForward(MockDynamic):
    """Takes float32 forward only."""

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Refuse the rest with a reason."""
        if problem.direction is not Direction.FORWARD:
            return Rejected(Reason.DIRECTION)
        if problem.dtype is not DataType.FLOAT32:
            return Rejected(Reason.DTYPE, "float32 only")
        return APPLICABLE


def test_the_report_lists_what_ran_and_what_was_refused() -> None:
    report = assert_solver(FloatForward(), MockDevice(), shapes=[PLAIN])
    assert len(report.problems) == 4  # as given, channels last, and two mixtures
    assert PLAIN.with_direction("backward-data").key in report.rejected
    assert "float32 only" in " ".join(report.rejected.values())
    assert 0 < report.worst_error < 1
    assert "4 problems ran" in str(report)


def test_a_check_that_ran_nothing_is_no_success() -> None:
    backward = [PLAIN.with_direction("backward-data")]
    report = check_solver(FloatForward(), MockDevice(), shapes=backward, every_variant=False)
    assert not report.failures
    assert not report.ok
    with pytest.raises(AssertionError, match="nothing ran: give check_solver shapes"):
        assert_solver(FloatForward(), MockDevice(), shapes=backward, every_variant=False)


def test_assert_solver_raises_with_check_detail_and_problem() -> None:
    device = MockDevice(functions={**MOCK_FUNCTIONS, "mock_convolution": lambda *_: None})
    with pytest.raises(AssertionError) as caught:
        assert_solver(MockDynamic(), device, shapes=[PLAIN], every_variant=False)
    assert "random data: error of y (max inf" in str(caught.value)
    assert PLAIN.key in str(caught.value)


def test_transposed_problems_are_checked_as_the_plain_ones_behind_them() -> None:
    problem = ConvProblem.forward((2, 6, 5, 5), (6, 4, 3, 3), mode="transpose", stride=2)
    report = assert_solver(MockDynamic(), MockDevice(), shapes=[problem], every_variant=False)
    assert report.problems == [problem.plain().key]
    assert problem.plain().direction is Direction.BACKWARD_DATA


def test_memory_arguments_move_behind_the_guard() -> None:
    offsets: list[int] = []

    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        offsets.extend(surroundings(memory)[1] for memory in (x, w, y))
        mock_convolution(x, w, y, *rest)

    assert failed_checks(MockDynamic(), kernel=kernel) == {}
    assert set(offsets) == {4096}


def test_workspace_offsets_stay_inside_the_guards() -> None:
    class Offset(MockHungry):
        """Uses the second half of its workspace."""

        def solution(
            self,
            problem: ConvProblem,
            target: Target,
            config: Config | None = None,
            workspace_limit: int | None = None,
        ) -> Recipe:
            """Point to the middle."""
            whole = super().solution(problem, target, config, workspace_limit)
            (launch,) = whole.steps
            assert isinstance(launch, Launch)
            middle = BufferArg(Memory.WORKSPACE, self.workspace // 2)
            arguments = (*launch.arguments[:3], middle, *launch.arguments[4:])
            return replace(whole, steps=(replace(launch, arguments=arguments),))

    checks = failed_checks(Offset())
    assert checks["random data"] == "wrote behind the end of workspace"


def test_a_solver_that_declares_epilogues_is_asked_about_one() -> None:
    class Forgetful(MockFused):
        """Leaves the bias out."""

        def solution(self, problem: ConvProblem, *others: Any, **more: Any) -> Recipe:
            """Compute another problem."""
            return super().solution(replace(problem, bias=False), *others, **more)

    device = MockBackend().open()
    right = check_solver(MockFused(), device, shapes=[PLAIN], every_variant=False)
    assert right.ok, str(right)
    assert right.with_epilogue
    assert not set(right.with_epilogue) & set(right.problems)
    wrong = check_solver(Forgetful(), device, shapes=[PLAIN], every_variant=False)
    assert {failure.check for failure in wrong.failures} >= {"random data"}
    unaware = check_solver(MockDynamic(), device, shapes=[PLAIN], every_variant=False)
    assert not unaware.with_epilogue


@pytest.mark.parametrize("direction", Direction)
def test_every_problem_with_results_of_its_own_can_be_fused(direction: Direction) -> None:
    for case in edge_cases():
        problem = case.with_direction(direction)
        has_epilogue = problem.plain_direction is not Direction.BACKWARD_WEIGHTS
        assert fused(problem).is_fused is has_epilogue
        assert fused(problem) == fused(problem)
