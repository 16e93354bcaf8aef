"""`Plan`: a schedule made ready on a device; a run enqueues all of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from convfind.handle import Handle
from convfind.runtime.backend import DeviceBuffer, InvokeArgs, Invoker
from convfind.runtime.tensors import DeviceTensor, to_host_array
from convfind.solver.recipe import Recipe, Step
from convfind_networks.errors import BindingError
from convfind_networks.plan.recipes import steps_of
from convfind_networks.plan.schedule import ARENA, CONSTANTS, Port, Schedule
from convfind_networks.tensor_type import Array

if TYPE_CHECKING:
    from convfind_networks.plan.explanation import PlanExplanation
    from convfind_networks.plan.profile import Profile

#: What memory of the host must begin at a multiple of, for devices to use it in place.
_HOST_ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class Plan:
    """A network ready to run: kernels loaded, weights packed, memory taken; see `Network.compile`.

    Runs may come from several threads: all plans of a handle wait for each other, since they share
    its queue, and those of one plan its arena. The handle must stay open.
    """

    schedule: Schedule
    handle: Handle
    steps: tuple[tuple[Step, ...], ...]  # of each task
    invoker: Invoker
    memory: Mapping[str, DeviceBuffer]  # arena and constants

    @classmethod
    def ready(
        cls,
        handle: Handle,
        schedule: Schedule,
        recipes: Sequence[Recipe],
        constants: DeviceBuffer | None,
    ) -> Self:
        """Make a schedule ready, with the recipes of its tasks and its constants on the device."""
        device = handle.session.device
        sizes = schedule.sizes
        steps = tuple(
            steps_of(task, recipe, sizes)
            for task, recipe in zip(schedule.tasks, recipes, strict=True)
        )
        programs = (program for recipe in recipes for program in recipe.programs)
        loaded = handle.session.kernels.load_or_raise(programs)
        invoker = device.invoker([step for some in steps for step in some], loaded)
        memory: dict[str, DeviceBuffer] = {}
        if schedule.arena:
            memory[ARENA] = device.allocate(schedule.arena)
        if constants is not None:
            memory[CONSTANTS] = constants
        return cls(schedule, handle, steps, invoker, memory)

    @classmethod
    def load(cls, path: str | Path, handle: Handle) -> Plan:
        """Read what `save` wrote, for the same device and the same solvers.

        Raises:
            PlanError: no plan, or for another device or other solvers; compile the network again.
        """
        from convfind_networks.plan.plan_file import load_plan

        return load_plan(cls, Path(path), handle)

    def save(self, path: str | Path) -> None:
        """Write the schedule and the packed weights to one file (safetensors, no code inside).

        Raises `OSError`.
        """
        from convfind_networks.plan.plan_file import save_plan

        save_plan(self, Path(path))

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs, in the order of the model."""
        return self.schedule.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs, in the order of the model."""
        return self.schedule.outputs

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Compute the outputs, by public name, from the inputs, by name.

        Inputs are arrays, tensors with DLPack, or a `DeviceTensor`. What lies C-contiguous at a
        multiple of 64 bytes in memory that the device shares is used in place, without a copy.

        Raises:
            BindingError: an input is missing, unknown, or of another type or shape.
        """
        with self.bound(inputs) as (memory, finish):
            self.invoker(InvokeArgs(**memory))
            self.handle.synchronize()
            return finish()

    def profile(self, inputs: Mapping[str, Any] | None = None, *, rounds: int = 5) -> Profile:
        """Time every task by itself and the whole; random inputs where none are given."""
        from convfind_networks.plan.profile import profile_of

        return profile_of(self, inputs, rounds)

    def explain(self) -> PlanExplanation:
        """Say why each task is as it is: solver, layout, fusion, memory."""
        from convfind_networks.plan.explanation import PlanExplanation

        return PlanExplanation(self.schedule)

    @contextmanager
    def bound(
        self, inputs: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, DeviceBuffer], Callable[[], dict[str, Array]]]]:
        """Give the memory of a run, and what returns its outputs; nobody else runs meanwhile."""
        given = [self._given(port, inputs) for port in self.inputs]
        if len(inputs) > len(self.inputs):
            unknown = inputs.keys() - {port.name for port in self.inputs}
            raise BindingError(f"no such input: {', '.join(sorted(unknown))}")
        device = self.handle.session.device
        with device.lock:
            memory = dict(self.memory)
            for port, tensor in zip(self.inputs, given, strict=True):
                if not port.type.elements:
                    continue  # nobody reads it
                memory[port.place.memory] = (
                    device.upload(tensor) if isinstance(tensor, np.ndarray) else tensor
                )
            finishes = {port.name: self._output(port, memory) for port in self.outputs}
            yield memory, lambda: {name: finish() for name, finish in finishes.items()}

    def _given(self, port: Port, inputs: Mapping[str, Any]) -> Array | DeviceBuffer:
        """Return an input as memory that the device can take."""
        if port.name not in inputs:
            raise BindingError(f"input {port.name} is missing: {port.type}")
        value = inputs[port.name]
        if isinstance(value, DeviceTensor):
            shape, dtype = value.shape, value.dtype.numpy
            if shape != port.type.shape or dtype != port.type.dtype or not _is_c_order(value):
                raise BindingError(f"input {port.name} is {port.type}, not {dtype}{list(shape)}")
            if value.buffer.size < port.type.nbytes:
                told = f"{port.type.nbytes} bytes, and its memory has {value.buffer.size}"
                raise BindingError(f"input {port.name} takes {told}")
            return value.buffer
        array = to_host_array(value, port.name)
        if array.shape != port.type.shape or array.dtype != port.type.dtype:
            given = f"{array.dtype}{list(array.shape)}"
            raise BindingError(f"input {port.name} is {port.type}, not {given}")
        return np.ascontiguousarray(array)

    def _output(self, port: Port, memory: dict[str, DeviceBuffer]) -> Callable[[], Array]:
        """Put an output's memory among the others; return what gives its array after the run."""
        device, kind = self.handle.session.device, port.type
        array = _aligned(kind.nbytes).view(kind.dtype).reshape(kind.shape)
        if not array.size:
            return lambda: array
        name = port.place.memory
        if name.startswith("output") and name not in memory:
            shared = device.wrap_output(array)
            if shared is not None:
                memory[name] = shared
                return lambda: array
            memory[name] = device.allocate(kind.nbytes)

        def read() -> Array:
            device.read(memory[name], array, port.place.offset)
            return array

        return read


def _aligned(nbytes: int) -> Array:
    raw = np.empty(nbytes + _HOST_ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % _HOST_ALIGNMENT
    return raw[begin : begin + nbytes]


def _is_c_order(tensor: DeviceTensor) -> bool:
    step = 1
    for size, given in zip(reversed(tensor.shape), reversed(tensor.form.strides), strict=True):
        if size > 1 and given != step:
            return False
        step *= size
    return True
