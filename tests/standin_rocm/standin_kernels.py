"""Kernels on the stand-in, through the unmodified hip-python: compile, load, launch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

# Without type information that holds.
hip: Any = pytest.importorskip("rocm.bindings.hip", reason="hip-python is not installed")
hiprtc: Any = pytest.importorskip("rocm.bindings.hiprtc")

Array = np.ndarray[Any, Any]


class HipError(Exception):
    """A status other than success; its name is the message."""


class CompileError(Exception):
    """A program that hiprtc refused; the log is the message."""


def checked(result: Any) -> Any:
    """Return what a call of hip-python returns behind its status."""
    status, *values = result
    if int(status) != 0:
        raise HipError(status.name)
    return values[0] if len(values) == 1 else tuple(values)


def compiled(
    source: str,
    arch: str = "gfx90a",
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> bytearray:
    """Compile with hiprtc. Raises `CompileError`."""
    texts = headers or {}
    program = checked(
        hiprtc.hiprtcCreateProgram(
            source.encode(),
            b"kernel.hip",
            len(texts),
            [text.encode() for text in texts.values()],
            [name.encode() for name in texts],
        )
    )
    try:
        words = [f"--offload-arch={arch}".encode(), *(option.encode() for option in options)]
        (status,) = hiprtc.hiprtcCompileProgram(program, len(words), words)
        if int(status) != 0:
            log = bytearray(checked(hiprtc.hiprtcGetProgramLogSize(program)))
            checked(hiprtc.hiprtcGetProgramLog(program, log))
            raise CompileError(log.rstrip(b"\0").decode())
        code = bytearray(checked(hiprtc.hiprtcGetCodeSize(program)))
        checked(hiprtc.hiprtcGetCode(program, code))
        return code
    finally:
        checked(hiprtc.hiprtcDestroyProgram(program.createRef()))


class Kernel:
    """A function of a loaded code object."""

    def __init__(self, code: bytearray, name: str) -> None:
        self._code = code
        self.module = checked(hip.hipModuleLoadData(code))
        self.function = checked(hip.hipModuleGetFunction(self.module, name.encode()))

    def launch(
        self, arguments: tuple[Any, ...], *, grid: int = 1, block: int = 64, lds: int = 0
    ) -> None:
        """Launch on the null stream and wait."""
        sizes = (grid, 1, 1, block, 1, 1)
        checked(hip.hipModuleLaunchKernel(self.function, *sizes, lds, None, None, arguments))
        checked(hip.hipDeviceSynchronize())

    def close(self) -> None:
        """Unload."""
        checked(hip.hipModuleUnload(self.module))


def uploaded(array: Array) -> Any:
    """Return device memory with an array's bytes."""
    memory = checked(hip.hipMalloc(array.nbytes))
    copied = hip.hipMemcpy(memory, array, array.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice)
    checked(copied)
    return memory


def downloaded(memory: Any, like: Array) -> Array:
    """Return a copy of device memory as an array of that shape and type."""
    array = np.empty_like(like)
    copied = hip.hipMemcpy(array, memory, array.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost)
    checked(copied)
    return array


def run(
    source: str,
    name: str,
    *arrays: Array,
    arch: str = "gfx90a",
    grid: int = 1,
    block: int = 64,
    lds: int = 0,
    numbers: Sequence[int] = (),
) -> list[Array]:
    """Run a kernel whose arguments are arrays, then whole numbers; return the arrays after it."""
    kernel = Kernel(compiled(source, arch), name)
    memory = [uploaded(array) for array in arrays]
    try:
        scalars = tuple(ctypes.c_int(number) for number in numbers)
        kernel.launch((*memory, *scalars), grid=grid, block=block, lds=lds)
        return [downloaded(*pair) for pair in zip(memory, arrays, strict=True)]
    finally:
        for piece in memory:
            hip.hipFree(piece)
        hip.hipModuleUnload(kernel.module)
