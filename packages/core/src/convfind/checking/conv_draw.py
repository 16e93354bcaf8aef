"""`ConvDraw`: a draw of a convolution, with quick ways to check a result of any size."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from convfind.cached import cached_property
from convfind.checking import comparer
from convfind.checking.accuracy import (
    ErrorReport,
    bound_of,
    check_error,
    spread_magnitude,
)
from convfind.checking.checksum import Checksum
from convfind.checking.conv_operands import ConvOperands
from convfind.checking.draw import Array, Assistant, Computed, Draw, Results, no_assistant
from convfind.checking.held import Held
from convfind.checking.pieces import Begun
from convfind.checking.random_numbers import Distribution
from convfind.checking.reference import (
    Right,
    finished_magnitude,
    finished_result,
    reference_magnitude,
    right_result,
)
from convfind.checking.sample import Sample
from convfind.errors import VerificationError
from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver, asking

#: From so many multiply-accumulates on a GPU computes the reference faster than NumPy does, which
#: takes 50 ns for one of a depthwise layer.
_HOST_REFERENCE_MACS = 2 * 10**7
#: Up to so many results the reference's largest value says little about rounding.
_FEW_RESULTS = 4096
#: Up to so many multiply-accumulates a small result is compared whole each time.
_FEW_PRODUCTS = 2**20
#: The largest sum of absolute values that a device is asked for: float16 holds little more.
_LARGEST_SUM = 2.0**15


class ConvDraw(Draw):
    """A draw of a plain convolution.

    The first check compares with a reference, by NumPy or, where that is slow, by a last resort,
    which is the direct formula. Later ones compare with a checksum where that is quicker; behind an
    activation nothing adds up, so there the whole result is compared again.
    """

    problem: ConvProblem

    def __init__(self, problem: ConvProblem, seed: int, distribution: Distribution) -> None:
        self._operands = ConvOperands(problem, seed, distribution)
        super().__init__(problem, seed, self._operands)
        self.parts = self._operands.parts
        self._writes = problem.direction.writes
        self._right: Right | None = None
        self._held: Held | None = None
        self._sampled: Begun[tuple[Sample, Checksum]] | None = None
        if self.reads_results:
            view = self._view(self._writes, self.before[self._writes])
            view[...] = np.random.default_rng(seed + 1).random(view.shape)

    @property
    def reads_results(self) -> bool:
        """True if beta adds what the result was."""
        return self.problem.reads_result

    @property
    def compared(self) -> Right | Held | None:
        """The reference of a large result, where there is one."""
        return None if self._is_small else self._held or self._right

    def begin(self) -> None:
        """Have other threads begin with what says whether a device is believed."""
        if self._sampled is None and is_large(self.problem):
            work = partial(_sampled, self.problem, self._operands, self.before[self._writes])
            self._sampled = Begun(work)

    def make_ready(self, assistant: Assistant = no_assistant) -> bool:
        """Compute the reference, and the magnitude of small results."""
        is_known = self._right is not None or self._held is not None
        if not is_known and assistant is not no_assistant and is_large(self.problem):
            self._ask(assistant)
        if self._held is None:
            _ = self.right, self._magnitude
        return self._is_by_device

    def make_ready_again(self, assistant: Assistant = no_assistant) -> None:
        """Have the device compute the reference, or compute the checksum where that is enough."""
        if self._right is None and self._held is None and is_large(self.problem):
            computed = assistant(self.problem.without_activation())
            if computed is not None:
                self._take(computed)
        if self._held is None:
            _ = (self.right, self._magnitude) if self._is_compared_again else self.checksum

    def check(self, results: Results, solver: Solver) -> ErrorReport:
        """Compare the result with the reference."""
        return self.judge(self._error_of(results, solver), solver)

    def judge(self, error: ErrorReport, solver: Solver) -> ErrorReport:
        """Compare an error with the solver's bound."""
        bound = bound_of(solver, self.problem, rounded_reference=self._is_by_device)
        if not check_error(error, bound):
            msg = (
                f"error {error.max_error:.3g} (rms {error.rms_error:.3g}) exceeds the bound "
                f"{bound.max_error:.3g} (rms {bound.rms_error:.3g}), with data of seed {self.seed}"
            )
            raise VerificationError(msg)
        return error

    def check_again(self, results: Results, solver: Solver) -> None:
        """Compare the result with the reference, or what it must add up to."""
        if self._is_compared_again:
            self.judge_again(self._error_of(results, solver), solver)
            return
        error = self.checksum.error_of(results[self._writes])
        if not self.checksum.allows(error, bound_of(solver, self.problem)):
            raise self._wrong(f"error {error.max_error:.3g} of the channels' sum")

    def judge_again(self, error: ErrorReport, solver: Solver) -> None:
        """Compare an error with the solver's bound."""
        try:
            self.judge(error, solver)
        except VerificationError as wrong:
            raise self._wrong(str(wrong)) from None

    def _error_of(self, results: Results, solver: Solver) -> ErrorReport:
        magnitude = self._magnitude
        if magnitude is not None:
            last = self.problem.tensor_layout(self._writes).channels_last
            reach = asking.error_reach(solver, self.problem)
            magnitude = spread_magnitude(magnitude, reach, channels_last=last)
        return self.right.error_of(results[self._writes], magnitude)

    def _wrong(self, error: str) -> VerificationError:
        msg = f"right at first, and wrong when it was timed: {error}"
        return VerificationError(f"{msg}, with data of seed {self.seed}")

    @cached_property
    def checksum(self) -> Checksum:
        """The sum of the right result, without an activation, under signs that nobody knows."""
        first, second, before, bias = self._tensors
        return Checksum(self.problem, first, second, before, None, bias)

    @property
    def right(self) -> Right:
        """The right result: by NumPy, unless a device has computed it and still knows it."""
        if self._right is None and self._held is not None and self._held.is_intact:
            self._right = self._finished(self._held.whole())
        if self._right is None:
            self._right = right_result(self.problem, *self._tensors)
        return self._right

    @property
    def _is_compared_again(self) -> bool:
        """True if the whole result is compared again: behind an activation nothing adds up.

        Few products are as quick to compute as their sum, and say more: few numbers may all add up
        to nearly 0 by chance.
        """
        is_quick = self._is_small and self.problem.macs <= _FEW_PRODUCTS
        has_right = self._right is not None or self._held is not None
        return has_right or self.problem.activation is not None or is_quick

    @property
    def _is_by_device(self) -> bool:
        """True if a device has computed the reference."""
        return self._held is not None or self.right.is_rounded

    def _ask(self, assistant: Assistant) -> None:
        """Have a device compute the reference; NumPy's checksum meanwhile says if it is believed.

        So it is of the magnitude, where that is needed and the type of results holds it.
        """
        self.begin()
        computed = assistant(self.problem.without_activation())
        sampled, self._sampled = self._sampled, None
        if computed is not None and sampled and _is_believed(computed, *sampled.result()):
            self._take(computed)
        if not (self._is_small and self.problem.dtype.is_float):  # int8 has no |-128|
            return
        absolute = {name: np.abs(memory) for name, memory in self.memory.items()}
        first_name, second_name = self.problem.direction.reads
        first, second = (self._view(name, absolute[name]) for name in (first_name, second_name))
        sums = replace(self.problem.without_epilogue(), beta=0.0)
        scale = _scale_of(sums, float(first.max()) * float(second.max()))
        sums = replace(sums, alpha=scale * sums.alpha)
        *_, before, bias = self._tensors
        sample = Sample.of(sums)
        parts = sample.part(first_name, first), sample.part(second_name, second)
        added_up = Begun(partial(Checksum, sample.problem, *parts, None, None))
        computed = assistant(sums, absolute)
        if computed is not None and _is_believed(computed, sample, added_up.result()):
            magnitude = computed.whole().astype(np.float64) / scale
            self._magnitude = finished_magnitude(self.problem, magnitude, before, bias)

    def _take(self, computed: Computed) -> None:
        """Take a device's result, up to the activation, for right."""
        held, activation = computed.result, self.problem.activation
        is_compared_there = comparer.knows(activation) and not self.problem.add_last
        if isinstance(held, Held) and is_compared_there and not self._is_small:
            self._held = held.before(activation)
        else:
            self._right = self._finished(computed.whole())

    def _finished(self, sums: Array) -> Right:
        is_added = self.problem.adds_z and self.problem.add_last
        z = self._operands.view("z") if is_added else None
        return finished_result(self.problem, sums, z)

    @property
    def _is_small(self) -> bool:
        return math.prod(self.problem.shape(self._writes)) <= _FEW_RESULTS

    @cached_property
    def _magnitude(self) -> Array | None:
        """The scale of errors in small results, whose values may all be nearly zero."""
        return reference_magnitude(self.problem, *self._tensors) if self._is_small else None

    @property
    def _tensors(self) -> tuple[Array, Array, Array, Array | None]:
        """The tensors that are convolved, the one that is added, and the bias."""
        views = {name: self._operands.view(name) for name in self._operands}
        first, second = self.problem.direction.reads
        before = views.get("z")
        if before is None:
            before = self._view(self._writes, self.before[self._writes])
        return views[first], views[second], before, views.get("bias")

    def _view(self, name: str, memory: Array) -> Array:
        return tensor_view(self.problem, name, memory)


def _sampled(
    problem: ConvProblem, operands: ConvOperands, before: Array
) -> tuple[Sample, Checksum]:
    """Return a sample of a problem up to its activation, and the checksum of that.

    ``before`` is the memory of the result before a run.
    """
    summed = problem.without_activation()
    sample = Sample.of(summed)
    first, second = (operands.sampled(sample, name, name) for name in summed.direction.reads)
    writes = summed.direction.writes
    added = None
    if summed.adds_z:
        added = operands.sampled(sample, "z", writes)
    elif summed.beta:
        added = sample.part(writes, tensor_view(problem, writes, before))
    bias = operands.view("bias") if summed.bias else None
    return sample, Checksum(sample.problem, first, second, added, None, bias)


def _scale_of(problem: ConvProblem, largest: float) -> float:
    """Return the power of two by which sums of products, of the largest, fit into any type."""
    sums = abs(problem.alpha) * problem.reduction * largest
    return min(1.0, 2.0 ** -math.ceil(math.log2(max(sums, 1.0) / _LARGEST_SUM)))


def _is_believed(computed: Computed, sample: Sample, checksum: Checksum) -> bool:
    """Return whether a device's result is right, as far as anybody's: if NumPy's checksum says so.

    It is that of the sample.
    """
    bound = bound_of(computed.solver, sample.problem)
    return checksum.allows(checksum.error_of(sample.result(computed)), bound)


def is_large(problem: ConvProblem) -> bool:
    """Return whether a device, where there is one, computes a problem's reference."""
    return problem.macs > _HOST_REFERENCE_MACS
