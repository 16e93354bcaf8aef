"""Checks of a solver that run its kernels on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from convfind.checking.accuracy import (
    bound_of,
    check_error,
    integer_data,
    measure_error,
    random_operands,
    spread_magnitude,
)
from convfind.checking.reference import reference_magnitude, right_result
from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver
from convfind.solver.recipe import Recipe
from convfind.testing.guarded_run import POISON, GuardedRunner
from convfind.testing.report import SolverReport
from convfind.testing.tensors import Array, Bytes, filled_memory


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

    def check(self, problem: ConvProblem, solution: Recipe) -> bool:
        """Run everything that applies to a problem and its default solution.

        Returns:
            Whether it ran correctly; otherwise further checks are pointless.
        """
        numbers = self._numbers(problem, random_operands(problem, self._seed))
        result = self._run(problem, solution, numbers, "random data", exact=False)
        if result is None:
            return False
        self._report.problems.append(problem.key)
        pair = zip(problem.direction.reads, integer_data(problem, self._seed), strict=True)
        whole = self._numbers(problem, dict(pair))
        # Transforms round even if data and results are integers.
        is_whole = problem.activation is None or not problem.activation.roundings
        exact = is_whole and self._solver.error_bound(problem) == 1.0
        self._run(problem, solution, whole, "whole numbers", exact=exact)
        # What a run on other data leaves in memory does not matter to the next one.
        other = self._numbers(problem, random_operands(problem, self._seed + 1, "clipped"))
        self._run(problem, solution, other, "other data", earlier=numbers)
        if problem.adds_z:
            self._run(problem, solution, numbers, "z in the result", in_place=True)
        if solution.packed:
            bound = self._run(problem, solution, numbers, "bound weights", bound=True)
            self._compare(problem, "bound weights", result, bound)
        self._check_limits(problem, solution, numbers)
        self._check_determinism(problem, numbers)
        return True

    def _numbers(self, problem: ConvProblem, read: Mapping[str, Array]) -> dict[str, Array]:
        """Return all tensors: those given, and small integers in place of all others."""
        numbers = dict(read)
        for name in (*problem.reads, problem.direction.writes):
            if name not in numbers:
                shape = problem.tensor_layout(name).to_memory(problem.shape(name))
                small = np.random.default_rng(self._seed).integers(-2, 3, shape)
                numbers[name] = small.astype(problem.tensor_dtype(name).numpy)
        return numbers

    def _check_limits(
        self, problem: ConvProblem, solution: Recipe, numbers: Mapping[str, Array]
    ) -> None:
        """Check that under a workspace limit memory is as announced and results are the same."""
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
                self._run(problem, limited, numbers, f"workspace limit {limit}")

    def _check_determinism(self, problem: ConvProblem, numbers: Mapping[str, Array]) -> None:
        """Check that a solver that takes the problem with ``deterministic`` reproduces all bits."""
        promised = replace(problem, deterministic=True)
        if not self._solver.takes(promised, self._target):
            return
        solution = self._solver.solution(promised, self._target)
        first = self._run(promised, solution, numbers, "determinism")
        for _ in range(2):
            again = self._run(promised, solution, numbers, "determinism")
            self._compare(promised, "determinism", first, again)

    def _run(
        self,
        problem: ConvProblem,
        solution: Recipe,
        numbers: Mapping[str, Array],
        check: str,
        *,
        exact: bool = False,
        bound: bool = False,
        in_place: bool = False,
        earlier: Mapping[str, Array] | None = None,
    ) -> Bytes | None:
        """Run, and return the result's memory if it is correct."""
        tensors = _in_memory(problem, numbers)
        before = None if earlier is None else _in_memory(problem, earlier)
        try:
            outcome = self._runner.run(
                problem, solution, tensors, bound=bound, in_place=in_place, earlier=before
            )
        except Exception as error:
            self._fail(check, problem, f"raised {type(error).__name__}: {error}")
            return None
        for complaint in outcome.complaints:
            self._fail(check, problem, complaint)
        wrong = self._judge(problem, numbers, outcome.result, exact=exact)
        if wrong:
            self._fail(check, problem, wrong)
        return None if wrong or outcome.complaints else outcome.result

    def _judge(
        self, problem: ConvProblem, numbers: Mapping[str, Array], memory: Bytes, *, exact: bool
    ) -> str:
        """Return the faults of a result; empty if it is correct."""
        writes = problem.direction.writes
        first, second = (numbers[name] for name in problem.direction.reads)
        operands = first, second, numbers.get("z", numbers[writes]), numbers.get("bias")
        result = tensor_view(problem, writes, memory)
        right = right_result(problem, *operands)
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
            reference_magnitude(problem, *operands),
            self._solver.error_reach(problem),
            channels_last=problem.tensor_layout(writes).channels_last,
        )
        error = measure_error(result, right.result, magnitude, right.yardstick)
        bound = bound_of(self._solver, problem)
        if not check_error(error, bound):
            return f"error of {writes} ({error}) is over the bound ({bound})"
        if error.max_error:
            self._report.worst_error = max(
                self._report.worst_error, error.max_error / bound.max_error
            )
        return ""

    def _compare(
        self, problem: ConvProblem, check: str, one: Bytes | None, other: Bytes | None
    ) -> None:
        if one is not None and other is not None and not np.array_equal(one, other):
            self._fail(check, problem, "gives other bits than the run before")

    def _fail(self, check: str, problem: ConvProblem, detail: str) -> None:
        self._report.fail(check, problem.key, detail)


def _in_memory(problem: ConvProblem, numbers: Mapping[str, Array]) -> dict[str, Bytes]:
    """Lay out tensors as the problem says; the result is poisoned unless the problem reads it."""
    is_read = {*problem.reads, *((problem.direction.writes,) if problem.reads_result else ())}
    return {
        name: filled_memory(problem, name, value if name in is_read else None, POISON)
        for name, value in numbers.items()
    }
