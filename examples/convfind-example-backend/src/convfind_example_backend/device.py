"""`NumpyDevice`: the kit's device, whose queue has always finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from convfind.backend_kit.device import Bytes, QueueDevice
from convfind.backend_kit.memory import bytes_of
from convfind.backend_kit.pool import most_idle
from convfind.device.target import Target
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step
from convfind_example_backend.compiler import Compiler, LoadedKernel
from convfind_example_backend.invoker import NumpyInvoker
from convfind_example_backend.memory import HostBlock, HostPool, NumpyBuffer


class NumpyDevice(QueueDevice[NumpyBuffer]):
    """NumPy as a device. Whatever is enqueued is done when the call returns."""

    runtime = "NumPy"
    buffer_type = NumpyBuffer

    def __init__(self, target: Target) -> None:
        super().__init__(target, Compiler(target), HostPool(most_idle(target)))

    def load_code(self, program: Program, code: bytes) -> LoadedKernel:
        """Look the function up."""
        return LoadedKernel.named(program, code)

    def prepare(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> NumpyInvoker:
        """Prepare steps."""
        return NumpyInvoker(steps, loaded)

    def wrap_output(self, array: np.ndarray[Any, Any]) -> NumpyBuffer | None:
        """Return an array's own memory, if it may be written."""
        self.check_usable()
        if not (array.flags.c_contiguous and array.flags.writeable):
            return None
        return NumpyBuffer(HostBlock(bytes_of(array)), array.nbytes)

    def copy_in(self, buffer: NumpyBuffer, data: Bytes) -> None:
        """Copy from an array."""
        buffer.block.data[: data.size] = data

    def copy_out(self, data: Bytes, buffer: NumpyBuffer, offset: int) -> None:
        """Copy to an array."""
        data[...] = buffer.block.data[offset : offset + data.size]

    def set_bytes(self, buffer: NumpyBuffer, byte: int) -> None:
        """Fill a buffer."""
        buffer.block.data[: buffer.size] = byte

    def adopt_tensor(self, tensor: object) -> NumpyBuffer | None:
        """Return a buffer of its own as it is: NumPy has no other tensors than arrays."""
        return tensor if isinstance(tensor, NumpyBuffer) else None

    def finish(self) -> None:
        """Do nothing: all is done."""
