"""`HipInvoker`: steps made ready, so that a call only enqueues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hip import hip

from convfind.backend_kit.invoker import BoundSteps
from convfind.backend_kit.pointed import Point, PointedSteps
from convfind.backend_kit.ready import ReadyFill, ReadyGemm
from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Fill, Launch, Step
from convfind_backend_hip.errors import checked
from convfind_backend_hip.memory import HipBuffer
from convfind_backend_hip.ready_launch import ReadyLaunch
from convfind_backend_hip.stream import Event

if TYPE_CHECKING:
    from convfind_backend_hip.device import HipDevice


class HipInvoker(BoundSteps[ReadyLaunch | ReadyFill | ReadyGemm]):
    """Steps made ready for one stream."""

    def __init__(
        self, device: HipDevice, steps: Sequence[Step], loaded: Mapping[Program, object]
    ) -> None:
        stream = device.stream

        def set_zero(address: int, size: int) -> None:
            doing = f"fill of {size} bytes"
            checked(
                hip.hipMemsetAsync(address, 0, size, stream), "hipMemsetAsync", doing, LaunchError
            )

        def ready(step: Step) -> ReadyLaunch | ReadyFill | ReadyGemm:
            if isinstance(step, Launch):
                return ReadyLaunch(stream, step, loaded)
            if isinstance(step, Fill):
                return ReadyFill(step, set_zero)
            return ReadyGemm(step, device.library().product(step))

        super().__init__("hip", HipBuffer, steps, ready)
        self._stream = stream
        self._events: tuple[Event, Event] | None = None

    def __call__(self, args: InvokeArgs) -> None:
        """Enqueue the steps in order."""
        self.bind(args)
        for step in self._steps:
            step.enqueue()

    def addressed(self, fixed: Mapping[str, HipBuffer], sizes: Mapping[str, int]) -> Point:
        """Return what enqueues the steps on memory at addresses. Raises `LaunchError`."""
        steps = PointedSteps(self._steps, fixed, sizes)

        def run(addresses: Sequence[int]) -> None:
            self._bound = None  # the next call with buffers binds all of them
            steps.point(addresses)
            for step in self._steps:
                step.enqueue()

        return run

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps, wait, and return milliseconds from first start to last end."""
        if not self._steps:
            return 0.0
        if self._events is None:
            self._events = Event(), Event()
        self.bind(args)
        first, last = self._events
        first.record(self._stream)
        self(args)
        last.record(self._stream)
        return last.since(first)
