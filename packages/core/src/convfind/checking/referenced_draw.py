"""`ReferencedDraw`: a draw whose results are compared with the problem's own reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.checking.accuracy import LARGEST_FACTOR, ErrorReport, measure_error
from convfind.checking.draw import Array, Assistant, Draw, Results, no_assistant
from convfind.errors import SolverError, VerificationError
from convfind.problem.contract import CheckedProblem
from convfind.runtime.tensors import memory_of
from convfind.solver import Solver, asking


class ReferencedDraw(Draw):
    """A draw of any problem that says what is right, and how far results may be off.

    The error that a problem allows is multiplied by the solver's `error_bound`; one rounding to the
    type of the result comes on top.
    """

    problem: CheckedProblem

    def __init__(self, problem: CheckedProblem, seed: int) -> None:
        self._inputs = problem.draw(np.random.default_rng(seed))
        memory = {
            name: memory_of(problem, name, problem.operand(name).arranged(values))
            for name, values in self._inputs.items()
        }
        super().__init__(problem, seed, memory)

    def make_ready(self, assistant: Assistant = no_assistant) -> bool:
        """Compute the reference."""
        _ = self._right
        return False

    def make_ready_again(self, assistant: Assistant = no_assistant) -> None:
        """Compute the reference."""
        _ = self._right

    def check(self, results: Results, solver: Solver) -> ErrorReport:
        """Compare each element with the reference."""
        factor = asking.error_bound(solver, self.problem)
        if factor > LARGEST_FACTOR:
            detail = f"error_bound is {factor:.3g}; it may be {LARGEST_FACTOR:.3g} at most"
            raise SolverError(solver.solver_id, detail)
        reports = [self._checked(name, results[name], factor) for name in self.problem.writes]
        return max(reports, key=lambda report: report.max_error)

    def check_again(self, results: Results, solver: Solver) -> None:
        """Compare each element with the reference."""
        self.check(results, solver)

    def _checked(self, name: str, result: Array, factor: float) -> ErrorReport:
        right, allowed = self._right[name]
        with np.errstate(invalid="ignore", over="ignore"):
            stored = right.astype(result.dtype)
            error = np.abs(result.astype(np.float64) - right)
            limit = factor * allowed + _last_rounding(result.dtype, right)
            is_within = (error <= limit) & np.isfinite(right)  # an infinite limit allows nothing
            wrong = ~(is_within | (result == stored) | ((result != result) & (right != right)))
        if wrong.any():
            where = tuple(map(int, np.argwhere(wrong)[0]))
            msg = (
                f"{name} is {result[where]} and not {right[where]:.6g} at {where}, one of "
                f"{np.count_nonzero(wrong)} wrong elements, with data of seed {self.seed}"
            )
            raise VerificationError(msg)
        return measure_error(result, stored if result.dtype.kind not in "fV" else right)

    @cached_property
    def _right(self) -> dict[str, tuple[Array, Array]]:
        """Right results, and how far each of their elements may be off."""
        inputs = {name: _widened(values) for name, values in self._inputs.items()}
        right = self.problem.reference(inputs)
        allowed = self.problem.allowed_error(inputs, right)
        found = {}
        for name in self.problem.writes:
            operand = self.problem.operand(name)
            limits = np.broadcast_to(allowed[name], operand.shape)
            found[name] = operand.arranged(np.asarray(right[name])), operand.arranged(limits)
        return found


def _widened(values: Array) -> Array:
    return values if values.dtype.kind in "iub" else values.astype(np.float64)


def _last_rounding(dtype: np.dtype[Any], right: Array) -> Array | float:
    """The largest error of rounding right results to their type."""
    if dtype.kind in "iub":
        return 0.0
    if dtype.kind == "f":
        info: Any = np.finfo(dtype)
    else:
        import ml_dtypes  # NumPy does not know the limits of the types of ml_dtypes

        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return np.abs(right) * (float(info.eps) / 2) + float(info.smallest_subnormal)
