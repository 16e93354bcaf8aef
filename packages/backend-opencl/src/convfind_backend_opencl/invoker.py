"""`OpenCLInvoker`: steps made ready, so that a call only enqueues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter

import pyopencl as cl

from convfind.backend_kit.invoker import BoundSteps
from convfind.backend_kit.launching import (
    check_end,
)
from convfind.device.target import Target
from convfind.errors import DeviceError, LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Fill, Launch, Step
from convfind_backend_opencl.addressed import AddressedSteps
from convfind_backend_opencl.cpu_threads import Caller
from convfind_backend_opencl.errors import translated
from convfind_backend_opencl.host_memory import HostMemory
from convfind_backend_opencl.memory import OpenCLBuffer, enqueue_fill
from convfind_backend_opencl.ready_launch import ReadyLaunch


class OpenCLInvoker(BoundSteps["ReadyLaunch | _ReadyFill"]):
    """Steps made ready for a device's queues: the one for work and the one for timing."""

    def __init__(
        self,
        queue: cl.CommandQueue,
        timing_queue: Callable[[], cl.CommandQueue],
        target: Target,
        caller: Caller,
        host_memory: HostMemory,
        steps: Sequence[Step],
        loaded: Mapping[Program, object],
    ) -> None:
        def ready(step: Step) -> ReadyLaunch | _ReadyFill:
            if isinstance(step, Launch):
                return ReadyLaunch(queue.device, target, step, loaded)
            if isinstance(step, Fill):
                return _ReadyFill(step)
            msg = "a product by a library: the opencl backend has none; use gemm kernels"
            raise LaunchError(msg)

        super().__init__("opencl", OpenCLBuffer, steps, ready)
        self._queue = queue
        self._timing_queue = timing_queue
        self._caller = caller
        self._host_memory = host_memory
        #: How many set arguments to addresses, and which of them did last; 0: calls with buffers.
        self._users = self._user = 0

    def __call__(self, args: InvokeArgs) -> None:
        """Enqueue the steps in order."""
        self._user = 0
        self._host_memory.is_idle = False
        try:
            self.bind(args)
            for step in self._steps:
                step.submit(self._queue, args)
        except cl.Error as exc:
            raise self._launch_error(exc) from exc

    def addressed(
        self,
        fixed: Mapping[str, OpenCLBuffer],
        sizes: Mapping[str, int],
        local_queue: cl.CommandQueue | None = None,
    ) -> AddressedSteps | None:
        """Return the steps on memory at addresses; None where one of them needs a buffer."""
        launches = [
            step.addressed(fixed, sizes) for step in self._steps if isinstance(step, ReadyLaunch)
        ]
        if len(launches) < len(self._steps):
            return None
        self._users += 1
        take = partial(self._taken, self._users)
        if local_queue is None:
            return AddressedSteps(launches, self._queue, take, self._waited)
        local = local_queue, self._get_idle, partial(self._waited_here, local_queue)
        return AddressedSteps(launches, self._queue, take, self._waited, local)

    def _taken(self, user: int) -> bool:
        """Note who sets the kernels' arguments now; True where that was another one before."""
        self._host_memory.is_idle = False
        if self._user == user:
            return False
        self._user, self._bound = user, None  # the next call with buffers binds all of them
        return True

    def _waited(self) -> None:
        try:
            self._caller.wait(self._queue.finish)
        except cl.Error as exc:
            raise self._launch_error(exc) from exc
        self._host_memory.passed()

    def _get_idle(self) -> None:
        """Wait for what was enqueued before, if anything was."""
        if not self._host_memory.is_idle:
            self._waited()

    def _waited_here(self, local_queue: cl.CommandQueue) -> None:
        """Wait for a queue whose commands the calling thread executes; the other one is idle."""
        try:
            local_queue.finish()
        except cl.Error as exc:
            raise self._launch_error(exc) from exc
        self._host_memory.passed()

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps, wait, and return milliseconds from first start to last end."""
        if not self._steps:
            return 0.0
        events, wall = self._run_timed(args)
        return _device_time(events[0][0], events[-1][1], wall)

    def step_times(self, args: InvokeArgs) -> list[float]:
        """Run the steps in a row, wait, and return the milliseconds of each."""
        if not self._steps:
            return []
        events, wall = self._run_timed(args)
        return [_device_time(first, last, wall) for first, last in events]

    def _run_timed(self, args: InvokeArgs) -> tuple[list[tuple[cl.Event, cl.Event]], float]:
        """Return each step's first and last event, and milliseconds on the host's clock."""
        self._user = 0
        try:
            self.bind(args)
            queue = self._timing_queue()
            self._caller.wait(self._queue.finish)  # what came before may be on another queue
            self._host_memory.is_idle = False
            began = perf_counter()
            try:
                events = [step.enqueue(queue, args) for step in self._steps]
                self._caller.wait(events[-1][1].wait)
            except BaseException:
                queue.finish()  # so that what comes next may be on another queue
                raise
            self._host_memory.passed()
        except cl.Error as exc:
            raise self._launch_error(exc) from exc
        return events, (perf_counter() - began) * 1e3

    def _launch_error(self, error: cl.Error) -> DeviceError | LaunchError:
        return translated(error, f"launch of {self.names}", LaunchError)


class _ReadyFill:
    """Zeros for a region. It looks its buffer up at each call and so keeps none alive."""

    __slots__ = ("_fill", "name")

    def __init__(self, fill: Fill) -> None:
        self.name = f"fill of {fill.memory}"
        self._fill = fill

    def bind(self, buffers: Mapping[str, OpenCLBuffer]) -> None:
        """Check that the region lies inside the buffer."""
        fill, size = self._fill, buffers[self._fill.memory].block.size
        check_end(self.name, fill.memory, fill.offset + fill.size, size)

    def submit(self, queue: cl.CommandQueue, args: InvokeArgs) -> None:
        """Enqueue the fill."""
        self.enqueue(queue, args)

    def enqueue(self, queue: cl.CommandQueue, args: InvokeArgs) -> tuple[cl.Event, cl.Event]:
        """Enqueue the fill; return the first and the last event."""
        fill = self._fill
        buffer: OpenCLBuffer = getattr(args, fill.memory)
        return enqueue_fill(queue, buffer.block, 0, fill.offset, fill.size)


def _device_time(first: cl.Event, last: cl.Event, wall: float) -> float:
    """Milliseconds between two events.

    The wall clock stands in where the event times cannot be: coarse clocks give zero, and events
    that some runtimes never started give times before or far beyond the run.
    """
    try:
        start, end = first.profile.start, last.profile.end
    except cl.Error:
        return wall
    time = (end - start) * 1e-6
    # Device and host clocks may drift apart a little.
    return time if 0.0 < time <= wall * 1.1 else wall
