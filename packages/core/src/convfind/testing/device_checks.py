"""Checks of a solver that run its kernels on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from convfind.checking.accuracy import bound_of, check_error, spread_magnitude
from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver
from convfind.solver.recipe import Recipe
from convfind.testing.guarded_run import GuardedMemory, GuardedRunner, Outcome
from convfind.testing.kept_numbers import KeptNumbers
from convfind.testing.numbers import Numbers
from convfind.testing.report import SolverReport
from convfind.testing.tensors import Bytes

#: Solvers are asked the same small problems one after the other; right results take some times as
#: many bytes as the tensors.
_NUMBERS = KeptNumbers(limit=2**26, largest=2**20)


@dataclass(frozen=True, slots=True)
class CorrectRun:
    """A run with a correct result, which others are compared with."""

    memory: GuardedMemory
    numbers: Numbers
    result: Bytes


class DeviceChecks:
    """Runs one solver's solutions on one device and records all failures in one report."""

    def __init__(
        self, report: SolverReport, solver: Solver, target: Target, runner: GuardedRunner, seed: int
    ) -> None:
        self._report = report
        self._solver = solver
        self._target = target
        self._runner = runner
        self._seed = seed

    def check(self, problem: ConvProblem, solution: Recipe) -> CorrectRun | None:
        """Run everything that applies to a problem and its default solution.

        Returns:
            The run on random data; None if it was not correct and further checks are pointless.
        """
        memory = self._runner.memory(problem, solution)
        numbers = _NUMBERS.get(Numbers.random, problem, self._seed)
        result = self._run("random data", lambda: memory.run(numbers.memory), numbers)
        if result is None:
            return None
        correct = CorrectRun(memory, numbers, result)
        self._report.problems.append(problem.key)
        if solution.packed:
            self._repeat("bound weights", lambda: memory.run_packed(numbers.memory), correct)
        # Leftovers of a run on other data do not matter to the next one.
        other = _NUMBERS.get(Numbers.clipped, problem, self._seed + 1)
        self._run("other data", lambda: memory.run_after(other.memory), other)
        whole = _NUMBERS.get(Numbers.whole, problem, self._seed)
        # Transforms round even if data and results are integers.
        is_whole = problem.activation is None or not problem.activation.roundings
        exact = is_whole and self._solver.error_bound(problem) == 1.0
        self._run("whole numbers", lambda: memory.run(whole.memory), whole, exact=exact)
        if problem.adds_z and not problem.add_last:
            self._run("z in the result", lambda: memory.run_in_place(numbers.memory), numbers)
        self._check_limits(solution, numbers)
        self._check_determinism(solution, correct)
        return correct

    def _check_limits(self, solution: Recipe, numbers: Numbers) -> None:
        """Check that under a workspace limit memory is as announced and results are the same."""
        problem = numbers.problem
        needed = solution.total_workspace
        for limit in sorted({0, needed // 2}):
            size = self._solver.workspace_size(problem, self._target, limit)
            limited = self._solver.solution(problem, self._target, workspace_limit=limit)
            if limited.total_workspace != size:
                self._fail(
                    "workspace limit",
                    problem,
                    f"under {limit} bytes workspace_size says {size}, "
                    f"the solution {limited.total_workspace}",
                )
            elif size > needed:
                self._fail("workspace limit", problem, f"{size} bytes under {limit}, else {needed}")
            elif limited != solution and size <= limit:
                run = partial(self._runner.run, problem, limited, numbers.memory)
                self._run(f"workspace limit {limit}", run, numbers)

    def _check_determinism(self, usual: Recipe, correct: CorrectRun) -> None:
        """Check that a solver that takes the problem with ``deterministic`` reproduces all bits."""
        memory, numbers = correct.memory, correct.numbers
        promised = replace(numbers.problem, deterministic=True)
        if not self._solver.takes(promised, self._target):
            return
        solution = self._solver.solution(promised, self._target)
        if solution != usual:
            memory = self._runner.memory(promised, solution)
            numbers = Numbers(promised, numbers.values, self._seed)
            result = self._run("determinism", lambda: memory.run(numbers.memory), numbers)
            if result is None:
                return
            correct = CorrectRun(memory, numbers, result)
        for _ in range(2):
            self._repeat("determinism", lambda: memory.run(numbers.memory), correct)

    def _run(
        self, check: str, run: Callable[[], Outcome], numbers: Numbers, *, exact: bool = False
    ) -> Bytes | None:
        """Run, and return the result's memory if it is correct."""
        outcome = self._outcome(check, run, numbers.problem)
        if outcome is None:
            return None
        wrong = self._judge(numbers, outcome.result, exact=exact)
        if wrong:
            self._fail(check, numbers.problem, wrong)
        return None if wrong or outcome.complaints else outcome.result

    def _repeat(self, check: str, run: Callable[[], Outcome], correct: CorrectRun) -> None:
        """Run on the same numbers, which must give the same bits."""
        numbers = correct.numbers
        outcome = self._outcome(check, run, numbers.problem)
        if outcome is not None and not np.array_equal(outcome.result, correct.result):
            wrong = self._judge(numbers, outcome.result, exact=False)
            self._fail(check, numbers.problem, wrong or "gives other bits than the run before")

    def _outcome(
        self, check: str, run: Callable[[], Outcome], problem: ConvProblem
    ) -> Outcome | None:
        try:
            outcome = run()
        except Exception as error:
            self._fail(check, problem, f"raised {type(error).__name__}: {error}")
            return None
        for complaint in outcome.complaints:
            self._fail(check, problem, complaint)
        return outcome

    def _judge(self, numbers: Numbers, memory: Bytes, *, exact: bool) -> str:
        """Return the faults of a result; empty if it is correct."""
        problem = numbers.problem
        writes = problem.direction.writes
        result = tensor_view(problem, writes, memory)
        right = numbers.right
        if exact:
            expected = right.result.astype(result.dtype)
            if np.array_equal(result, expected):
                return ""
            wrong = np.argwhere(result != expected)
            where = tuple(int(index) for index in wrong[0])
            return (
                f"{len(wrong)} of {result.size} elements of {writes} differ, the first at {where}: "
                f"{result[where]} instead of {expected[where]}"
            )
        magnitude = spread_magnitude(
            numbers.magnitude,
            self._solver.error_reach(problem),
            channels_last=problem.tensor_layout(writes).channels_last,
        )
        error = right.error_of(result, magnitude)
        bound = bound_of(self._solver, problem)
        if not check_error(error, bound):
            return f"error of {writes} ({error}) is over the bound ({bound})"
        if error.max_error:
            self._report.worst_error = max(
                self._report.worst_error, error.max_error / bound.max_error
            )
        return ""

    def _fail(self, check: str, problem: ConvProblem, detail: str) -> None:
        self._report.fail(check, problem.key, detail)
