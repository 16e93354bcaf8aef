"""A kernel with its arguments set: a call launches it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pyopencl as cl

from convfind.backend_kit.launching import (
    LaunchLimits,
    check_inside,
    launch_name,
    loaded_program,
    scalar,
)
from convfind.device.target import DeviceKind, Target
from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, LocalArg, TensorMapArg
from convfind_backend_opencl.addressed import AddressedLaunch
from convfind_backend_opencl.errors import opencl_errors, translated
from convfind_backend_opencl.eventless import EventlessLaunch
from convfind_backend_opencl.memory import OpenCLBuffer, step_alignment
from convfind_backend_opencl.module import LoadedProgram


class ReadyLaunch:
    """A kernel object of its own, since arguments are its state, and where its buffers go."""

    __slots__ = ("_buffers", "_eventless", "_global", "_kernel", "_launch", "_local", "name")

    def __init__(
        self,
        device: cl.Device,
        target: Target,
        launch: Launch,
        loaded: Mapping[Program, object],
    ) -> None:
        self.name = launch_name(launch.kernel)
        program = loaded_program(launch.kernel, loaded, LoadedProgram)
        self._kernel = program.kernel(launch.kernel)
        self._global = launch.global_size
        self._local = launch.local_size
        _limits(self._kernel, device, target).check(launch)
        declared = self._kernel.num_args
        if len(launch.arguments) != declared:
            msg = f"{self.name} declares {declared} arguments and gets {len(launch.arguments)}"
            raise LaunchError(msg)
        buffers: list[tuple[int, str, int]] = []
        for index, argument in enumerate(launch.arguments):
            if isinstance(argument, BufferArg):
                buffers.append((index, argument.memory, argument.offset))
                continue
            if isinstance(argument, TensorMapArg):
                raise LaunchError(f"argument {index} of {self.name}: only CUDA has tensor maps")
            with opencl_errors(f"argument {index} of {self.name}, {argument},", LaunchError):
                if isinstance(argument, LocalArg):
                    local = cl.LocalMemory(argument.size)
                    self._kernel.set_arg(index, local)  # type: ignore[arg-type]  # not in its stub
                else:
                    self._kernel.set_arg(index, scalar(self.name, index, argument))
        self._buffers = tuple(buffers)
        self._launch = EventlessLaunch(self._kernel, self._global, self._local)
        self._eventless: EventlessLaunch | None = None
        if target.kind is DeviceKind.GPU:  # CPU runtimes make events in less than a call takes
            self._eventless = self._launch

    def addressed(
        self, fixed: Mapping[str, OpenCLBuffer], sizes: Mapping[str, int]
    ) -> AddressedLaunch:
        """Return the launch on memory at addresses. Raises `LaunchError`."""
        how = (self.name, self._kernel, self._launch, self._buffers)
        return AddressedLaunch(*how, fixed, sizes)

    def bind(self, buffers: Mapping[str, OpenCLBuffer]) -> None:
        """Set the buffer arguments."""
        for index, memory, offset in self._buffers:
            block = buffers[memory].block
            check_inside(self.name, memory, offset, block.size)
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


def _limits(kernel: cl.Kernel, device: cl.Device, target: Target) -> LaunchLimits:
    info = cl.kernel_work_group_info
    declared = tuple(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))
    return LaunchLimits(
        # NVIDIA's runtime says 256 of kernels that declare 512, and runs them.
        group=max(kernel.get_work_group_info(info.WORK_GROUP_SIZE, device), math.prod(declared)),
        group_axes=tuple(device.max_work_item_sizes),
        declared=declared if any(declared) else None,
        local_memory=target.local_memory,
        alignment=step_alignment(device),
    )
