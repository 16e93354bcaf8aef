"""`ConvOperands`: random tensors that a convolution reads, made where somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from convfind.checking.random_data import random_operand, random_parts
from convfind.checking.random_numbers import Distribution
from convfind.checking.sample import Sample
from convfind.problem import ConvProblem
from convfind.problem.tensor_spec import packed_steps
from convfind.runtime.tensors import memory_of, tensor_view

Array = np.ndarray[Any, Any]


class ConvOperands(Mapping[str, Array]):
    """Memory of the tensors by name, gaps included.

    Where a device makes tensors of rings by itself, the host needs a sample of them at most, and
    to make them whole takes it longer than all else that a find does.
    """

    def __init__(self, problem: ConvProblem, seed: int, distribution: Distribution) -> None:
        self._problem = problem
        self._seed = seed
        self._distribution = distribution
        self._made: dict[str, Array] = {}
        #: Tensors that are parts of rings of random numbers, by name.
        self.parts = {
            name: part
            for name, part in random_parts(problem, seed, distribution).items()
            if distribution != "wide" and _is_plain(problem, name)
        }

    def __getitem__(self, name: str) -> Array:
        """Return the memory of a tensor."""
        memory = self._made.get(name)
        if memory is None:
            if name not in self._problem.reads:
                raise KeyError(name)
            memory = self._made[name] = self._make(name)
        return memory

    def _make(self, name: str) -> Array:
        part = self.parts.get(name)
        if part is not None and part.is_in_one_piece:
            return part.numbers.seen(part.start, part.count)
        values = random_operand(self._problem, name, self._seed, self._distribution)
        return memory_of(self._problem, name, values)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._problem.reads)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._problem.reads)

    def view(self, name: str) -> Array:
        """Return a tensor, axes in the order of its layout."""
        return tensor_view(self._problem, name, self[name])

    def sampled(self, sample: Sample, name: str, of: str) -> Array:
        """Return what a sample has of a tensor, chosen as of the tensor ``of``: z as the result."""
        part = self.parts.get(name)
        if part is None or name in self._made:
            return sample.part(of, self.view(name))
        operand = self._problem.operand(name)
        return part.some(operand.in_memory(operand.shape), sample.places(of))


def _is_plain(problem: ConvProblem, name: str) -> bool:
    """Return whether elements lie in memory in the order of the layout, without gaps."""
    operand = problem.operand(name)
    sizes, steps = operand.in_memory(operand.shape), operand.in_memory(operand.strides)
    packed = packed_steps(sizes)
    return all(
        step == usual for size, step, usual in zip(sizes, steps, packed, strict=True) if size > 1
    )
