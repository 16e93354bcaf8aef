"""`CudaInvoker`: steps made ready, so that a call only enqueues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from convfind.backend_kit.invoker import BoundSteps
from convfind.backend_kit.pointed import Point, PointedSteps
from convfind.backend_kit.ready import ReadyFill, ReadyGemm
from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Fill, Launch, Step
from convfind_backend_cuda.driver_call import in_context, set_bytes
from convfind_backend_cuda.errors import failure
from convfind_backend_cuda.memory import CudaBuffer
from convfind_backend_cuda.ready_launch import ReadyLaunch
from convfind_backend_cuda.stream import Event

if TYPE_CHECKING:
    from convfind_backend_cuda.device import CudaDevice


class CudaInvoker(BoundSteps[ReadyLaunch | ReadyFill | ReadyGemm]):
    """Steps made ready for a queue, whichever stream it is on in a call."""

    def __init__(
        self, device: CudaDevice, steps: Sequence[Step], loaded: Mapping[Program, object]
    ) -> None:
        queue, memset = device.queue, set_bytes()

        def set_zero(address: int, size: int) -> None:
            status = memset(address, 0, size, queue.stream)
            if status:
                status = in_context(
                    status, queue.context, lambda: memset(address, 0, size, queue.stream)
                )
            if status:
                raise failure(status, "cuMemsetD8Async", f"fill of {size} bytes", LaunchError)

        def ready(step: Step) -> ReadyLaunch | ReadyFill | ReadyGemm:
            if isinstance(step, Launch):
                return ReadyLaunch(queue, step, loaded)
            if isinstance(step, Fill):
                return ReadyFill(step, set_zero)
            return ReadyGemm(step, device.library().product(step))

        super().__init__("cuda", CudaBuffer, steps, ready)
        self._queue = queue
        self._events: tuple[Event, Event] | None = None

    def __call__(self, args: InvokeArgs) -> None:
        """Enqueue the steps in order."""
        self.bind(args)
        self._enqueue_on_stream()

    def addressed(self, fixed: Mapping[str, CudaBuffer], sizes: Mapping[str, int]) -> Point:
        """Return what enqueues the steps on memory at addresses. Raises `LaunchError`."""
        steps = PointedSteps(self._steps, fixed, sizes)

        def run(addresses: Sequence[int]) -> None:
            self._bound = None  # the next call with buffers binds all of them
            steps.point(addresses)
            self._enqueue_on_stream()

        return run

    def _enqueue_on_stream(self) -> None:
        """Enqueue the steps with what they are bound to, on the stream of the moment."""
        queue = self._queue
        queue.follow()
        if queue.context.is_only:
            self._enqueue()
            return
        with queue.context:  # the thread's own may be another device's
            self._enqueue()

    def _enqueue(self) -> None:
        for step in self._steps:
            step.enqueue()

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps, wait, and return milliseconds from first start to last end."""
        if not self._steps:
            return 0.0
        self.bind(args)
        with self._queue.context:
            if self._events is None:
                self._events = Event(timing=True), Event(timing=True)
            first, last = self._events
            first.record(self._queue.follow())
            self(args)
            last.record(self._queue.stream)
            return last.since(first)
