"""`HipInvoker`: steps made ready, so that a call only enqueues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hip import hip

from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Fill, Launch, Step, memory_names
from convfind_backend_hip.errors import checked
from convfind_backend_hip.memory import HipBuffer
from convfind_backend_hip.ready_gemm import ReadyGemm
from convfind_backend_hip.ready_launch import ReadyLaunch
from convfind_backend_hip.stream import Event

if TYPE_CHECKING:
    from convfind_backend_hip.device import HipDevice


class HipInvoker:
    """Steps made ready for one stream."""

    def __init__(
        self, device: HipDevice, steps: Sequence[Step], loaded: Mapping[Program, object]
    ) -> None:
        self._stream = device.stream
        self._steps: list[ReadyLaunch | ReadyGemm | _ReadyFill] = []
        steps = [step for step in steps if not (isinstance(step, Fill) and step.size == 0)]
        self._memories = memory_names(steps)
        for step in steps:
            if isinstance(step, Launch):
                self._steps.append(ReadyLaunch(device, step, loaded))
            elif isinstance(step, Fill):
                self._steps.append(_ReadyFill(device.stream, step))
            else:
                self._steps.append(ReadyGemm(device.library(), step))
        self._events: tuple[Event, Event] | None = None

    def __call__(self, args: InvokeArgs) -> None:
        """Enqueue the steps in order."""
        try:
            for step in self._steps:
                step.enqueue(args)
        except AttributeError as exc:
            raise self._wrong_memory(args) from exc

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps, wait, and return milliseconds from first start to last end."""
        if not self._steps:
            return 0.0
        if self._events is None:
            self._events = Event(), Event()
        first, last = self._events
        first.record(self._stream)
        self(args)
        last.record(self._stream)
        return last.since(first)

    def _wrong_memory(self, args: InvokeArgs) -> LaunchError:
        """The error for an argument without an address."""
        for memory in self._memories:
            buffer = getattr(args, memory, None)
            if buffer is None:
                return LaunchError(f"the steps use {memory}, which is missing from the arguments")
            if not isinstance(buffer, HipBuffer):
                kind = type(buffer).__name__
                return LaunchError(f"{memory} is a {kind}, not a buffer of the hip backend")
        return LaunchError(f"arguments are {type(args).__name__}, not InvokeArgs")


class _ReadyFill:
    """Zeros for a region."""

    __slots__ = ("_fill", "_stream", "name")

    def __init__(self, stream: int, fill: Fill) -> None:
        self.name = f"fill of {fill.memory}"
        self._stream = stream
        self._fill = fill

    def enqueue(self, args: InvokeArgs) -> None:
        """Enqueue the fill."""
        fill = self._fill
        buffer: HipBuffer = getattr(args, fill.memory)
        if fill.offset + fill.size > buffer.block.size:
            end = fill.offset + fill.size
            msg = f"{self.name} ends at byte {end}, past the end of its {buffer.block.size} bytes"
            raise LaunchError(msg)
        result = hip.hipMemsetAsync(buffer.address + fill.offset, 0, fill.size, self._stream)
        checked(result, "hipMemsetAsync", self.name, LaunchError)
