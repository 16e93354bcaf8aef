"""`BackendBench`: an opened device with the kernels of `check_backend`, and words for checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.device.target import Target
from convfind.errors import ConvfindError
from convfind.runtime.backend import Backend, Device, DeviceBuffer, InvokeArgs, Invoker
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import Argument, Launch, Step

Array = np.ndarray[Any, Any]
_SOURCE = KernelSource("convfind.testing", "kernels/conformance.cl")
#: Elements of most checks.
COUNT = 64


class Violation(Exception):
    """The contract is broken; the text says where."""


class Unsupported(Exception):
    """A part of the contract that a backend may leave out, and does."""


def program(**defines: int) -> Program:
    """Return the program of the kernels."""
    return Program(_SOURCE, defines=make_defines(defines))


def launch(
    entry: str,
    *arguments: Argument,
    size: tuple[int, ...] = (COUNT,),
    local: tuple[int, ...] = (16,),
    of: Program | None = None,
) -> Launch:
    """Return a launch of a kernel."""
    return Launch(KernelSpec(of or program(), entry), arguments, size, local)


def expect(condition: object, detail: str) -> None:
    """Raise `Violation` unless the condition holds."""
    if not condition:
        raise Violation(detail)


def expect_equal(found: Array, expected: Any, what: str) -> None:
    """Raise `Violation` unless all elements are equal."""
    if not np.array_equal(found, expected):
        raise Violation(f"{what}: found {found!r}, expected {expected!r}")


def refused(
    kind: type[ConvfindError], doing: str, call: Callable[..., object], *arguments: Any
) -> str:
    """Return the message of the error that a call must raise. Raises `Violation` if it does not."""
    try:
        call(*arguments)
    except kind as error:
        return str(error)
    except Exception as error:
        msg = f"{doing} raises {type(error).__name__} ({error}), not {kind.__name__}"
        raise Violation(msg) from error
    msg = f"{doing} is not refused; raise {kind.__name__}"
    raise Violation(msg)


class BackendBench:
    """A device of a backend, opened for checks, and its helpers."""

    def __init__(self, backend: Backend, number: int, target: Target) -> None:
        self.backend = backend
        self.number = number
        self.target = target
        self._others: list[Device] = []

    @cached_property
    def device(self) -> Device:
        """The device that most checks share."""
        return self.opened()

    def opened(self) -> Device:
        """Return the device, opened once more; it is closed with the bench."""
        device = self.backend.open(str(self.number))
        self._others.append(device)
        return device

    def close(self) -> None:
        """Close every device that was opened."""
        for device in self._others:
            device.close()

    @cached_property
    def loaded(self) -> dict[Program, object]:
        """The program, loaded on the device."""
        return {program(): self.device.load(program(), self.device.compile(program()))}

    def invoker(self, *steps: Step) -> Invoker:
        """Prepare steps on the device."""
        has_launches = any(isinstance(step, Launch) for step in steps)
        return self.device.invoker(steps, self.loaded if has_launches else {})

    def run(self, args: InvokeArgs, *steps: Step) -> None:
        """Run steps and wait."""
        self.invoker(*steps)(args)
        self.device.synchronize()

    def filled(self, array: Array) -> DeviceBuffer:
        """Return memory with a copy of an array."""
        buffer = self.device.allocate(array.nbytes)
        self.device.write(buffer, array)
        return buffer

    def floats(self, values: Any) -> DeviceBuffer:
        """Return memory with a copy of float32 numbers."""
        return self.filled(np.asarray(values, np.float32))

    def read(self, buffer: DeviceBuffer | None, count: int, dtype: str = "float32") -> Array:
        """Return the first elements of a buffer."""
        assert buffer is not None
        result = np.empty(count, dtype)
        self.device.read(buffer, result)
        return result
