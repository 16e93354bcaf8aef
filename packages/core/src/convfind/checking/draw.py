"""`Draw`: random contents of a problem's tensors, and what is right for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.checking.accuracy import Distribution, random_data
from convfind.checking.checksum import Checksum
from convfind.checking.reference import reference_convolution, reference_magnitude
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
            for name, values in zip(
                problem.direction.reads, random_data(problem, seed, distribution), strict=True
            )
        }
        #: Memory of the result's previous contents.
        self.before = empty_memory(problem, problem.direction.writes)
        if problem.beta:
            view = tensor_view(problem, problem.direction.writes, self.before)
            view[...] = np.random.default_rng(seed + 1).random(view.shape)

    @cached_property
    def scratch(self) -> dict[str, Array]:
        """Memory to read the tensors back to: fresh pages cost as much as reading."""
        return {name: np.empty_like(memory) for name, memory in self.memory.items()}

    @cached_property
    def reference(self) -> Array:
        """The right result by NumPy, axes in the order of its layout."""
        return reference_convolution(self.problem, *self._reads, self._before)

    @cached_property
    def magnitude(self) -> Array:
        """What rounding errors are proportional to, elementwise."""
        return reference_magnitude(self.problem, *self._reads, self._before)

    @cached_property
    def checksum(self) -> Checksum:
        """What the right result adds up to, under signs that nobody else knows."""
        return Checksum(self.problem, *self._reads, self._before, None)

    @property
    def _reads(self) -> tuple[Array, Array]:
        first, second = self.problem.direction.reads
        return (
            tensor_view(self.problem, first, self.memory[first]),
            tensor_view(self.problem, second, self.memory[second]),
        )

    @property
    def _before(self) -> Array:
        return tensor_view(self.problem, self.problem.direction.writes, self.before)
