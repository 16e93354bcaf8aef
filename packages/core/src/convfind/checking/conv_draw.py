"""`ConvDraw`: a draw of a convolution, with quick ways to check a result of any size."""

from __future__ import annotations

import math

import numpy as np

from convfind.cached import cached_property
from convfind.checking.accuracy import (
    ErrorReport,
    bound_of,
    check_error,
    measure_error,
    spread_magnitude,
)
from convfind.checking.checksum import Checksum, loosened
from convfind.checking.draw import Array, Assistant, Draw, Results, no_assistant
from convfind.checking.random_data import Distribution, random_operands
from convfind.checking.reference import (
    Right,
    finished_result,
    reference_magnitude,
    right_result,
)
from convfind.errors import VerificationError
from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver, asking

#: From so many multiply-accumulates on a device computes the reference faster than NumPy does.
_HOST_REFERENCE_MACS = 2 * 10**9
#: Up to so many results the reference's largest value says little about rounding.
_FEW_RESULTS = 4096


class ConvDraw(Draw):
    """A draw of a plain convolution.

    The first check compares with a reference, by NumPy or, where that is slow, by a last resort,
    which is the direct formula. Later ones compare with a checksum; behind an activation nothing
    adds up, so there the whole result is compared again.
    """

    problem: ConvProblem

    def __init__(self, problem: ConvProblem, seed: int, distribution: Distribution) -> None:
        super().__init__(problem, seed, random_operands(problem, seed, distribution))
        self._writes = problem.direction.writes
        self._right: Right | None = None
        if self.reads_results:
            view = self._view(self._writes, self.before[self._writes])
            view[...] = np.random.default_rng(seed + 1).random(view.shape)

    @property
    def reads_results(self) -> bool:
        """True if beta adds what the result was."""
        return self.problem.reads_result

    def make_ready(self, assistant: Assistant = no_assistant) -> None:
        """Compute the reference, and the magnitude of small results."""
        if self._right is None:
            self._right = self._by_device(assistant)
        _ = self.right, self._magnitude

    def make_ready_again(self, assistant: Assistant = no_assistant) -> None:
        """Compute the checksum, or the reference behind an activation."""
        if self.problem.activation is None:
            _ = self.checksum
        else:
            self.make_ready(assistant)

    def check(self, results: Results, solver: Solver) -> ErrorReport:
        """Compare the result with the reference."""
        bound = bound_of(solver, self.problem, rounded_reference=self.right.is_rounded)
        magnitude = self._magnitude
        if magnitude is not None:
            last = self.problem.tensor_layout(self._writes).channels_last
            reach = asking.error_reach(solver, self.problem)
            magnitude = spread_magnitude(magnitude, reach, channels_last=last)
        right = self.right
        report = measure_error(results[self._writes], right.result, magnitude, right.yardstick)
        if not check_error(report, bound):
            msg = (
                f"error {report.max_error:.3g} (rms {report.rms_error:.3g}) exceeds the bound "
                f"{bound.max_error:.3g} (rms {bound.rms_error:.3g})"
            )
            raise VerificationError(msg)
        return report

    def check_again(self, results: Results, solver: Solver) -> None:
        """Compare the result with what it must add up to."""
        result = results[self._writes]
        if self.problem.activation is None:
            error = self.checksum.error_of(result)
            if not self.checksum.allows(error, bound_of(solver, self.problem)):
                raise self._wrong(f"error {error.max_error:.3g} of the channels' sum")
            return
        right = self.right
        bound = bound_of(solver, self.problem, rounded_reference=right.is_rounded)
        error = measure_error(result, right.result, None, right.yardstick)
        if not check_error(error, loosened(bound, right.result.size)):
            raise self._wrong(f"error {error.max_error:.3g}")

    def _wrong(self, error: str) -> VerificationError:
        msg = f"right at first, and wrong when it was timed: {error}"
        return VerificationError(f"{msg}, with data of seed {self.seed}")

    @cached_property
    def checksum(self) -> Checksum:
        """What the right result, without an activation, adds up to, under signs nobody knows."""
        first, second, before, bias = self._tensors
        return Checksum(self.problem, first, second, before, None, bias)

    @property
    def right(self) -> Right:
        """The right result: by NumPy, unless a device has computed it."""
        if self._right is None:
            self._right = right_result(self.problem, *self._tensors)
        return self._right

    def _by_device(self, assistant: Assistant) -> Right | None:
        """The right result of a large problem, where a device computes it without the epilogue.

        It is believed as far as anybody: if NumPy's checksum says so.
        """
        plain = self.problem.without_epilogue()
        found = assistant(plain) if self.problem.macs > _HOST_REFERENCE_MACS else None
        if found is None:
            return None
        convolved, oracle = found[0][self._writes], found[1]
        first, second, before, bias = self._tensors
        is_plain = plain is self.problem
        checksum = self.checksum if is_plain else Checksum(plain, first, second, before, None)
        if not checksum.allows(checksum.error_of(convolved), bound_of(oracle, plain)):
            return None
        return finished_result(self.problem, convolved, before, bias)

    @cached_property
    def _magnitude(self) -> Array | None:
        """What errors are relative to in small results, whose values may all be nearly zero."""
        if math.prod(self.problem.shape(self._writes)) > _FEW_RESULTS:
            return None
        return reference_magnitude(self.problem, *self._tensors)

    @property
    def _tensors(self) -> tuple[Array, Array, Array, Array | None]:
        """What is convolved, what is added to it, and the bias."""
        views = {name: self._view(name, array) for name, array in self.memory.items()}
        first, second = self.problem.direction.reads
        before = views.get("z")
        if before is None:
            before = self._view(self._writes, self.before[self._writes])
        return views[first], views[second], before, views.get("bias")

    def _view(self, name: str, memory: Array) -> Array:
        return tensor_view(self.problem, name, memory)
