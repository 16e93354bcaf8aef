"""`TensorSet`: a draw's tensors on a device, and whether kernels left them as they should."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.checking.draw import Draw
from convfind.checking.guards import POISON, Guarded, poisoned
from convfind.errors import VerificationError
from convfind.runtime.backend import Device, DeviceBuffer, InvokeArgs
from convfind.runtime.tensors import empty_memory, tensor_view

Array = np.ndarray[Any, Any]

#: Bytes of the guards around a result at least: a stray write may be far behind small tensors.
LEAST_GUARD = 1 << 19
_BLOCK = 1 << 16


class TensorSet:
    """Copies of the tensors of a draw in memory of the device's own, the result between guards."""

    def __init__(self, device: Device, draw: Draw) -> None:
        self.draw = draw
        self.writes = draw.problem.direction.writes
        self._device = device
        self._reads = {name: device.allocate(memory.nbytes) for name, memory in draw.memory.items()}
        self.result = Guarded.allocated(device, draw.before.nbytes, LEAST_GUARD)
        buffers: dict[str, DeviceBuffer] = {**self._reads, self.writes: self.result.buffer}
        self.args = InvokeArgs(**buffers)
        self.restore()
        self.reset_result()

    def restore(self) -> None:
        """Write what the draw says into the tensors that are read."""
        for name, buffer in self._reads.items():
            self._device.write(buffer, self.draw.memory[name])

    def reset_result(self) -> None:
        """Poison the result, or restore its previous contents where beta reads them."""
        if self.draw.problem.reads_result:
            self._device.write(self.result.buffer, self._image_before)
        else:
            self._device.fill(self.result.buffer, POISON)

    def changed(self) -> str | None:
        """Name a tensor that is only read and no longer what it was."""
        for name, buffer in self._reads.items():
            now = self.draw.scratch[name]
            self._device.read(buffer, now)
            if not same_bytes(now, self.draw.memory[name]):
                return name
        return None

    def check_reads(self) -> None:
        """Raise `VerificationError` if a tensor that is only read is not what it was."""
        if name := self.changed():
            msg = f"changed {name}, which it only reads"
            raise VerificationError(msg)

    def outcome(self, memory: Array) -> Array:
        """Read the result, axes in the order of its layout.

        Args:
            memory: where to, as `empty_memory` returns it.

        Raises:
            VerificationError: something was written around it, or between its elements.
        """
        if complaint := self.result.complaint(self._device):
            msg = f"{complaint} {self.writes}"
            raise VerificationError(msg)
        self._device.read(self.result.buffer, memory, self.result.guard)
        problem = self.draw.problem
        if self._gaps is not None and not same_bytes(self._without_elements(memory), self._gaps):
            msg = f"wrote into the gaps of {self.writes}"
            raise VerificationError(msg)
        return tensor_view(problem, self.writes, memory)

    @cached_property
    def _image_before(self) -> Array:
        guard = poisoned(self.result.guard)
        return np.concatenate([guard, self.draw.before.view(np.uint8), guard])

    @cached_property
    def _gaps(self) -> Array | None:
        """What lies between the elements of the result; None where they are packed."""
        problem = self.draw.problem
        view = tensor_view(problem, self.writes, self.draw.before)
        if view.nbytes == self.draw.before.nbytes:
            return None
        memory = empty_memory(problem, self.writes)
        memory.view(np.uint8)[...] = (
            self.draw.before.view(np.uint8) if problem.reads_result else POISON
        )
        return self._without_elements(memory)

    def _without_elements(self, memory: Array) -> Array:
        gaps = memory.copy()
        tensor_view(self.draw.problem, self.writes, gaps)[...] = 0
        return gaps


def same_bytes(one: Array, other: Array) -> bool:
    """Compare two arrays of one size, NaN included."""
    first, second = one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)
    return all(
        np.array_equal(first[at : at + _BLOCK], second[at : at + _BLOCK])
        for at in range(0, first.size, _BLOCK)
    )
