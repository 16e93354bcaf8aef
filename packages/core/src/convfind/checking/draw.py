"""`Draw`: random contents of a problem's tensors, and what is right for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.checking.accuracy import Distribution, random_operands
from convfind.checking.checksum import Checksum
from convfind.checking.reference import (
    Right,
    finished_result,
    reference_magnitude,
    right_result,
)
from convfind.problem import ConvProblem
from convfind.runtime.tensors import empty_memory, memory_of, tensor_view

Array = np.ndarray[Any, Any]


class Draw:
    """One draw for a plain problem.

    It is nobody else's memory: devices get copies, so whatever a kernel does to its tensors, what
    they were and what is right for them stays known.
    """

    def __init__(self, problem: ConvProblem, seed: int, distribution: Distribution) -> None:
        self.problem = problem
        self.seed = seed
        #: Memory of the tensors that are read, by name, gaps included.
        self.memory = {
            name: memory_of(problem, name, values)
            for name, values in random_operands(problem, seed, distribution).items()
        }
        #: Memory of the result's previous contents.
        self.before = empty_memory(problem, problem.direction.writes)
        if problem.reads_result:
            view = tensor_view(problem, problem.direction.writes, self.before)
            view[...] = np.random.default_rng(seed + 1).random(view.shape)

    @cached_property
    def scratch(self) -> dict[str, Array]:
        """Memory to read the tensors back to: fresh pages cost as much as reading."""
        return {name: np.empty_like(memory) for name, memory in self.memory.items()}

    @cached_property
    def right(self) -> Right:
        """The right result by NumPy."""
        return right_result(self.problem, *self._tensors)

    def right_of(self, convolved: Array) -> Right:
        """Return the right result, where somebody has computed it without the epilogue."""
        *_, z, bias = self._tensors
        return finished_result(self.problem, convolved, z, bias)

    @cached_property
    def magnitude(self) -> Array:
        """What rounding errors are proportional to, elementwise."""
        return reference_magnitude(self.problem, *self._tensors)

    @cached_property
    def checksum(self) -> Checksum:
        """What the right result, without an activation, adds up to, under signs nobody knows."""
        first, second, before, bias = self._tensors
        return Checksum(self.problem, first, second, before, None, bias)

    @cached_property
    def convolved_checksum(self) -> Checksum:
        """The same of the result without the epilogue."""
        first, second, before, _ = self._tensors
        return Checksum(self.problem.without_epilogue(), first, second, before, None)

    @property
    def _tensors(self) -> tuple[Array, Array, Array, Array | None]:
        """What is convolved, what is added to it, and the bias."""
        problem = self.problem
        views = {name: tensor_view(problem, name, array) for name, array in self.memory.items()}
        first, second = problem.direction.reads
        before = views.get("z")
        if before is None:
            before = tensor_view(problem, problem.direction.writes, self.before)
        return views[first], views[second], before, views.get("bias")
