"""Constants of a plan: in one buffer, as kernels read them, weights packed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convfind.handle import Handle
from convfind.runtime.backend import DeviceBuffer, InvokeArgs
from convfind.solver.recipe import Recipe, align, relocated
from convfind_networks.plan.schedule import CONSTANTS, Place
from convfind_networks.tensor_type import Array


@dataclass(frozen=True)
class Packing:
    """Weights that a recipe packs: its steps, what they read by name, and where the result lies."""

    recipe: Recipe
    reads: dict[str, Callable[[], Array]]
    offset: int


@dataclass
class Constants:
    """Where constants lie while a plan is made: those that kernels read as they are come first."""

    _raw: dict[object, tuple[int, Callable[[], Array]]] = field(default_factory=dict)
    _packings: dict[object, Packing] = field(default_factory=dict)
    _raw_size: int = 0
    size: int = 0

    def raw(self, key: object, nbytes: int, array: Callable[[], Array]) -> Place:
        """Return the place of a constant as it is; equal keys share one.

        All of them have to be asked for before the first that is packed.
        """
        if key not in self._raw:
            assert not self._packings
            self._raw[key] = (self.size, array)
            self.size += align(nbytes)
            self._raw_size = self.size
        return Place(CONSTANTS, self._raw[key][0])

    def packed(self, key: object, recipe: Recipe, reads: dict[str, Callable[[], Array]]) -> Place:
        """Return the place of packed weights; equal keys share one."""
        if key not in self._packings:
            self._packings[key] = Packing(recipe, reads, self.size)
            self.size += align(recipe.packed)
        return Place(CONSTANTS, self._packings[key].offset)

    def on_device(self, handle: Handle) -> DeviceBuffer | None:
        """Write all constants into one buffer and pack the weights; None where there are none."""
        if not self.size:
            return None
        device = handle.session.device
        buffer = device.allocate(self.size)
        if self._raw_size:
            host = np.zeros(self._raw_size, np.uint8)
            for offset, array in self._raw.values():
                contents = array().reshape(-1).view(np.uint8)
                host[offset : offset + contents.size] = contents
            device.write(buffer, host)
        self._pack(handle, buffer, list(self._packings.values()))
        return buffer

    def _pack(self, handle: Handle, buffer: DeviceBuffer, packings: Sequence[Packing]) -> None:
        device = handle.session.device
        loaded = handle.session.kernels.load_or_raise(
            program for one in packings for program in one.recipe.programs
        )
        for one in packings:
            steps = [relocated(step, _into(one.offset)) for step in one.recipe.prepare]
            memory: dict[str, DeviceBuffer] = {CONSTANTS: buffer}
            for name, array in one.reads.items():
                memory[name] = device.upload(array())
            if one.recipe.workspace:
                memory["workspace"] = device.allocate(one.recipe.workspace)
            device.invoker(steps, loaded)(InvokeArgs(**memory))
            device.synchronize()


def _into(base: int) -> Callable[[str, int], tuple[str, int]]:
    def place(memory: str, offset: int) -> tuple[str, int]:
        return (CONSTANTS, base + offset) if memory == "packed" else (memory, offset)

    return place


def laid_down(array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return an array's elements in one-dimensional memory.

    Args:
        array: the elements, in any shape of as many.
        shape: the shape that the strides belong to.
        strides: where each element lies, in elements.
    """
    spanned = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    memory = np.zeros(spanned if math.prod(shape) else 0, array.dtype)
    steps = tuple(step * array.itemsize for step in strides)
    view: np.ndarray[Any, Any] = np.lib.stride_tricks.as_strided(memory, shape, steps)
    view[...] = array.reshape(shape)
    return memory
