"""`OpenCLInvoker`: steps made ready, so that a call only enqueues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from operator import attrgetter
from time import perf_counter

import numpy as np
import pyopencl as cl

from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError, LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Fill, Launch, LocalArg, ScalarArg, Step, memory_names
from convfind_backend_opencl.compiler import LoadedProgram
from convfind_backend_opencl.cpu_threads import Caller
from convfind_backend_opencl.errors import opencl_errors, translated
from convfind_backend_opencl.eventless import EventlessLaunch
from convfind_backend_opencl.memory import HostMemory, OpenCLBuffer, enqueue_fill


class OpenCLInvoker:
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
        self._queue = queue
        self._timing_queue = timing_queue
        self._caller = caller
        self._host_memory = host_memory
        self._steps: list[_ReadyLaunch | _ReadyFill] = []
        steps = [step for step in steps if not (isinstance(step, Fill) and step.size == 0)]
        for step in steps:
            if isinstance(step, Launch):
                self._steps.append(_ReadyLaunch(queue.device, target, step, loaded))
            elif isinstance(step, Fill):
                self._steps.append(_ReadyFill(step))
            else:
                msg = "a product by a library: the opencl backend has none; use gemm kernels"
                raise LaunchError(msg)
        self._memories = memory_names(steps)
        # One C call that gives the serial numbers of all buffers in use. Numbers, because holding
        # on to the last call's buffers would keep them from their pool and arrays from the heap.
        self._serials: Callable[[InvokeArgs], object] = (
            attrgetter(*(f"{memory}.serial" for memory in self._memories))
            if self._memories
            else lambda args: None
        )
        self._bound: object = None

    def __call__(self, args: InvokeArgs) -> None:
        """Enqueue the steps in order."""
        self._host_memory.is_idle = False
        try:
            self._bind(args)
            for step in self._steps:
                step.submit(self._queue, args)
        except cl.Error as exc:
            raise self._launch_error(exc) from exc

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps, wait, and return milliseconds from first start to last end."""
        if not self._steps:
            return 0.0
        try:
            self._bind(args)
            queue = self._timing_queue()
            self._caller.wait(self._queue.finish)  # what came before may be on another queue
            self._host_memory.is_idle = False
            began = perf_counter()
            try:
                events = [step.enqueue(queue, args) for step in self._steps]
                first, last = events[0][0], events[-1][1]
                self._caller.wait(last.wait)
            except BaseException:
                queue.finish()  # so that what comes next may be on another queue
                raise
            self._host_memory.passed()
        except cl.Error as exc:
            raise self._launch_error(exc) from exc
        return _device_time(first, last, (perf_counter() - began) * 1e3)

    def _bind(self, args: InvokeArgs) -> None:
        """Set the buffer arguments, unless the buffers are those of the last call."""
        try:
            serials = self._serials(args)
        except AttributeError as exc:
            raise self._wrong_memory(args) from exc
        if serials == self._bound:
            return
        self._bound = None  # stays so if an argument is refused half-way
        buffers = {memory: getattr(args, memory) for memory in self._memories}
        for step in self._steps:
            step.bind(buffers)
        self._bound = serials

    def _wrong_memory(self, args: InvokeArgs) -> LaunchError:
        """The error for an argument without a serial number."""
        for memory in self._memories:
            buffer = getattr(args, memory, None)
            if buffer is None:
                return LaunchError(f"the steps use {memory}, which is missing from the arguments")
            if not isinstance(buffer, OpenCLBuffer):
                kind = type(buffer).__name__
                return LaunchError(f"{memory} is a {kind}, not a buffer of the opencl backend")
        return LaunchError(f"arguments are {type(args).__name__}, not InvokeArgs")

    def _launch_error(self, error: cl.Error) -> DeviceError | LaunchError:
        names = ", ".join(dict.fromkeys(step.name for step in self._steps))
        return translated(error, f"launch of {names}", LaunchError)


class _ReadyLaunch:
    """A kernel object of its own, since arguments are its state, and where its buffers go."""

    __slots__ = ("_buffers", "_eventless", "_global", "_kernel", "_local", "name")

    def __init__(
        self,
        device: cl.Device,
        target: Target,
        launch: Launch,
        loaded: Mapping[Program, object],
    ) -> None:
        self.name = f"{launch.kernel.entry} of {launch.kernel.program.source}"
        self._kernel = _kernel(launch.kernel, loaded)
        self._global = launch.global_size
        self._local = launch.local_size
        _check_sizes(self.name, self._kernel, device, launch)
        _check_local_memory(self.name, target, launch)
        declared = self._kernel.num_args
        if len(launch.arguments) != declared:
            msg = f"{self.name} declares {declared} arguments and gets {len(launch.arguments)}"
            raise LaunchError(msg)
        buffers: list[tuple[int, str, int]] = []
        for index, argument in enumerate(launch.arguments):
            if isinstance(argument, BufferArg):
                _check_alignment(self.name, device, argument)
                buffers.append((index, argument.memory, argument.offset))
                continue
            with opencl_errors(f"argument {index} of {self.name}, {argument},", LaunchError):
                if isinstance(argument, LocalArg):
                    local = cl.LocalMemory(argument.size)
                    self._kernel.set_arg(index, local)  # type: ignore[arg-type]  # not in its stub
                else:
                    self._kernel.set_arg(index, _scalar(self.name, index, argument))
        self._buffers = tuple(buffers)
        self._eventless: EventlessLaunch | None = None
        if target.kind is DeviceKind.GPU:  # CPU runtimes make events in less than a call takes
            self._eventless = EventlessLaunch(self._kernel, self._global, self._local)

    def bind(self, buffers: Mapping[str, OpenCLBuffer]) -> None:
        """Set the buffer arguments."""
        for index, memory, offset in self._buffers:
            block = buffers[memory].block
            if not 0 <= offset < block.size:
                msg = f"{self.name}: byte {offset} of {memory} is outside its {block.size} bytes"
                raise LaunchError(msg)
            try:
                self._kernel.set_arg(index, block.view(offset))
            except cl.Error as exc:
                doing = f"argument {index} of {self.name}, {memory} at byte {offset},"
                raise translated(exc, doing, LaunchError) from exc

    def submit(self, queue: cl.CommandQueue, args: InvokeArgs) -> None:
        """Enqueue the kernel with what is bound."""
        if self._eventless is None:
            self.enqueue(queue, args)
        else:
            self._eventless.enqueue(queue)

    def enqueue(self, queue: cl.CommandQueue, args: InvokeArgs) -> tuple[cl.Event, cl.Event]:
        """Enqueue the kernel with what is bound; return the first and the last event."""
        event = cl.enqueue_nd_range_kernel(queue, self._kernel, self._global, self._local)
        return event, event


class _ReadyFill:
    """Zeros for a region. It looks its buffer up at each call and so keeps none alive."""

    __slots__ = ("_fill", "name")

    def __init__(self, fill: Fill) -> None:
        self.name = f"fill of {fill.memory}"
        self._fill = fill

    def bind(self, buffers: Mapping[str, OpenCLBuffer]) -> None:
        """Check that the region lies inside the buffer."""
        size = buffers[self._fill.memory].block.size
        end = self._fill.offset + self._fill.size
        if end > size:
            msg = f"{self.name} ends at byte {end}, past the end of its {size} bytes"
            raise LaunchError(msg)

    def submit(self, queue: cl.CommandQueue, args: InvokeArgs) -> None:
        """Enqueue the fill."""
        self.enqueue(queue, args)

    def enqueue(self, queue: cl.CommandQueue, args: InvokeArgs) -> tuple[cl.Event, cl.Event]:
        """Enqueue the fill; return the first and the last event."""
        fill = self._fill
        buffer: OpenCLBuffer = getattr(args, fill.memory)
        return enqueue_fill(queue, buffer.block, 0, fill.offset, fill.size)


def _kernel(spec: KernelSpec, loaded: Mapping[Program, object]) -> cl.Kernel:
    program = loaded.get(spec.program)
    if not isinstance(program, LoadedProgram):
        msg = f"{spec.program.source} is not loaded; load it before making an invoker"
        raise LaunchError(msg)
    if spec.entry not in program.entries:
        entries = ", ".join(program.entries)
        msg = f"{spec.program.source} has no kernel {spec.entry!r}; it has: {entries}"
        raise LaunchError(msg)
    with opencl_errors(f"kernel {spec.entry} of {spec.program.source}", LaunchError):
        return program.kernel(spec.entry)


def _check_sizes(name: str, kernel: cl.Kernel, device: cl.Device, launch: Launch) -> None:
    global_size, local_size = launch.global_size, launch.local_size
    sizes = f"global size {global_size}, local size {local_size}"
    if len(global_size) != len(local_size) or not 1 <= len(global_size) <= 3:
        raise LaunchError(f"{name}: {sizes} must have the same number of dimensions, 1 to 3")
    if min(*global_size, *local_size) < 1:
        raise LaunchError(f"{name}: {sizes} must be positive")
    if any(total % local for total, local in zip(global_size, local_size, strict=True)):
        raise LaunchError(f"{name}: global size {global_size} is not a multiple of {local_size}")
    limits = device.max_work_item_sizes[: len(local_size)]
    if any(local > limit for local, limit in zip(local_size, limits, strict=True)):
        raise LaunchError(f"{name}: local size {local_size} is over the device's {tuple(limits)}")
    info = cl.kernel_work_group_info
    required = tuple(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))
    padded = (*local_size, 1, 1)[:3]
    if any(required) and required != padded:
        raise LaunchError(f"{name}: local size {local_size} is not the {required} that it declares")
    most = kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
    if prod(local_size) > most:
        items = prod(local_size)
        raise LaunchError(f"{name}: a group of {items} is over the kernel's limit of {most}")


def _check_alignment(name: str, device: cl.Device, argument: BufferArg) -> None:
    alignment = device.mem_base_addr_align // 8  # is in bits
    if argument.offset % alignment:
        msg = f"{name}: byte {argument.offset} of {argument.memory} is no multiple of {alignment}"
        raise LaunchError(msg)


def _check_local_memory(name: str, target: Target, launch: Launch) -> None:
    sizes = [argument.size for argument in launch.arguments if isinstance(argument, LocalArg)]
    if any(size < 1 for size in sizes) or sum(sizes) > target.local_memory:
        msg = f"{name}: local memory of {sizes} bytes; possible: 1 to {target.local_memory} in all"
        raise LaunchError(msg)


def _scalar(name: str, index: int, argument: ScalarArg) -> np.generic:
    try:
        value: np.generic = np.dtype(argument.kind).type(argument.value)
    except (TypeError, ValueError, OverflowError) as exc:
        msg = f"argument {index} of {name}: {argument.value!r} is no {argument.kind}"
        raise LaunchError(msg) from exc
    return value


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
