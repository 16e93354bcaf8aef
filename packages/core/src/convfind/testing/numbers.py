"""`Numbers`: what a problem's tensors hold in a check, and what is right for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from convfind.cached import cached_property
from convfind.checking.guards import POISON
from convfind.checking.plain_convolution import Doubles
from convfind.checking.random_data import integer_data, random_operands
from convfind.checking.reference import Right, reference_magnitude, right_result
from convfind.problem import ConvProblem
from convfind.testing.tensors import Array, Bytes, filled_memory


class Numbers:
    """The tensors that a plain problem reads, and small whole numbers in place of all others.

    Many runs share them: memory and references are made once, when they are first asked for.
    """

    def __init__(self, problem: ConvProblem, given: Mapping[str, Array], seed: int) -> None:
        self.problem = problem
        self.values = dict(given)
        for name in (*problem.reads, problem.direction.writes):
            if name not in given:
                shape = problem.tensor_layout(name).to_memory(problem.shape(name))
                small = np.random.default_rng(seed).integers(-2, 3, shape)
                self.values[name] = small.astype(problem.tensor_dtype(name).numpy)

    @classmethod
    def random(cls, problem: ConvProblem, seed: int) -> Numbers:
        """Uniformly distributed; of floats none is 0, which times infinity is NaN."""
        given = random_operands(problem, seed)
        if problem.dtype.is_float:
            for values in given.values():
                values[values == 0] = 1
        return cls(problem, given, seed)

    @classmethod
    def clipped(cls, problem: ConvProblem, seed: int) -> Numbers:
        """With zeros and ones, as networks have them."""
        return cls(problem, random_operands(problem, seed, "clipped"), seed)

    @classmethod
    def whole(cls, problem: ConvProblem, seed: int) -> Numbers:
        """Whole numbers, whose sums are exact."""
        pair = zip(problem.direction.reads, integer_data(problem, seed), strict=True)
        return cls(problem, dict(pair), seed)

    @cached_property
    def memory(self) -> dict[str, Bytes]:
        """Memory of every tensor that a run reads; without one it is poisoned."""
        problem = self.problem
        read = (*problem.reads, *((problem.direction.writes,) if problem.reads_result else ()))
        return {name: filled_memory(problem, name, self.values[name], POISON) for name in read}

    @cached_property
    def right(self) -> Right:
        """The right result, axes in the order of its layout."""
        return right_result(self.problem, *self._operands)

    @cached_property
    def magnitude(self) -> Doubles:
        """Return the magnitude that rounding errors are proportional to, elementwise."""
        return reference_magnitude(self.problem, *self._operands)

    @property
    def _operands(self) -> tuple[Array, Array, Array, Array | None]:
        """The tensors that are convolved, the one that is added, and the bias."""
        first, second = (self.values[name] for name in self.problem.direction.reads)
        added = self.values["z" if "z" in self.values else self.problem.direction.writes]
        return first, second, added, self.values.get("bias")
