"""`Plan`: a schedule made ready on a device; a run enqueues all of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from convfind.handle import Handle
from convfind.runtime.backend import DeviceBuffer, InvokeArgs, Invoker, TensorForm
from convfind.runtime.tensors import DeviceTensor, to_host_array
from convfind.solver.recipe import Recipe, Step
from convfind_networks.errors import BindingError
from convfind_networks.plan.host_memory import aligned
from convfind_networks.plan.indices import check_indices
from convfind_networks.plan.recipes import steps_of
from convfind_networks.plan.schedule import ARENA, CONSTANTS, Place, Port, Schedule
from convfind_networks.tensor_type import Array

if TYPE_CHECKING:
    from convfind_networks.plan.explanation import PlanExplanation
    from convfind_networks.plan.profile import Profile

#: Bytes of an array that a plan keeps from one run to the next, at most: binding another one takes
#: the host 0.1 ms, of which long runs do not notice.
_MOST_KEPT = 2**22
#: Bytes of an output that is copied out of memory that stays bound, at most.
_MOST_STAGED = 2**16


@dataclass(frozen=True, slots=True)
class _Kept:
    """An array, and its memory as the device has it."""

    array: Array
    address: int
    buffer: DeviceBuffer


@dataclass(frozen=True, slots=True)
class _Bound:
    """A run's memory, and what gives each output after it."""

    arrays: tuple[tuple[str, Array, dict[str, Any]], ...]  # inputs by name, and how they lie
    args: InvokeArgs
    finishes: dict[str, Callable[[], Array]]

    def is_for(self, inputs: Mapping[str, Any]) -> bool:
        """Tell whether inputs are the same arrays as before, and lie as they did."""
        return len(inputs) == len(self.arrays) and all(
            inputs.get(name) is array and array.__array_interface__ == lay
            for name, array, lay in self.arrays
        )


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
    #: By name: what the last run bound in place and the next one may bind again.
    _kept: dict[str, _Kept] = field(default_factory=dict, init=False, repr=False)
    #: The last run's memory, where the next one may have all of it again.
    _last: list[_Bound] = field(default_factory=list, init=False, repr=False)

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
        invoker = device.replayed([step for some in steps for step in some], loaded)
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

        Inputs are arrays, tensors with DLPack, tensors of the backend's own library, or a
        `DeviceTensor`. Memory that the device shares is used in
        place, without a copy, if it is C-contiguous from a multiple of 64 bytes on. Such
        an array of up to 4 MiB is kept until the next run, which is prepared in less time if it has
        the same array as its input.

        Raises:
            BindingError: an input is missing, unknown, or of another type or shape, or an array of
                indices has one that is out of range.
        """
        device = self.handle.session.device
        with device.lock:
            device.check_usable()
            bound = self._last[0] if self._last else None
            if bound is None or not bound.is_for(inputs):
                bound = self._newly_bound(inputs)
            else:
                for port in self.inputs:  # the same arrays may hold other indices
                    check_indices(port, inputs[port.name])
            self.invoker(bound.args)
            device.synchronize()
            return {name: finish() for name, finish in bound.finishes.items()}

    def enqueue(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Enqueue a run on tensors of the device: nothing is copied, and nothing waits.

        Where the device can replay what it has recorded, as CUDA can, tensors at the same addresses
        as in an earlier run make the run one launch.

        Args:
            inputs: tensors by name, of the backend's own library or each a `DeviceTensor`, in the
                ports' shapes and types, C-contiguous.
            outputs: such tensors by public name, to be written; no memory of an input, nor of each
                other.

        Raises:
            BindingError: a tensor is missing, unknown, not on the device, or of another form; or an
                output has no memory of its own (`writes_outputs`), so that only `run` returns it.
        """
        _check_names("input", inputs, self.inputs)
        _check_names("output", outputs, self.outputs)
        if not self.writes_outputs:
            raise BindingError("an output is an input, a constant or another output; use run")
        device = self.handle.session.device
        read = self._on_device("input", self.inputs, inputs)
        written = self._on_device("output", self.outputs, outputs)
        if any(device.overlap(one, other) for one in written.values() for other in read.values()):
            raise BindingError("an output shares memory with an input; pass other memory")
        if any(device.overlap(*pair) for pair in combinations(written.values(), 2)):
            raise BindingError("two outputs share memory; pass memory of its own for each")
        self.enqueue_memory({**read, **written})

    def enqueue_memory(self, memory: Mapping[str, DeviceBuffer]) -> None:
        """Enqueue a run on the memory of inputs and outputs, by its names in the schedule.

        Nothing is checked here: as `enqueue` has it, they are C-contiguous, in the ports' shapes
        and types, and outputs share no memory. Ports without elements need none.
        """
        with self.handle.session.device.lock:
            self.invoker(InvokeArgs(**self.memory, **memory))

    @property
    def writes_outputs(self) -> bool:
        """True where every output has memory of its own, as far as it has elements."""
        return all(owns or not port.type.elements for port, owns in self._owning())

    def _owning(self) -> list[tuple[Port, bool]]:
        """Return the outputs, and whether each has memory of its own: those that do first."""
        places = ((port, Place(f"output{at}")) for at, port in enumerate(self.outputs))
        found = [(port, port.place == own) for port, own in places]
        return sorted(found, key=lambda one: not one[1])

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
        with self.handle.session.device.lock:
            memory, finishes = self._binding(inputs)
            yield memory, lambda: {name: finish() for name, finish in finishes.items()}

    def _newly_bound(self, inputs: Mapping[str, Any]) -> _Bound:
        """Bind a run's memory, and keep that for the next one if every port's memory is kept."""
        memory, finishes = self._binding(inputs)
        args = InvokeArgs(**memory)
        if not self._keeps_all(inputs):
            return _Bound((), args, finishes)
        lain = tuple((name, array, array.__array_interface__) for name, array in inputs.items())
        self._last.append(bound := _Bound(lain, args, finishes))
        return bound

    def _keeps_all(self, inputs: Mapping[str, Any]) -> bool:
        """Tell whether inputs were bound as they are, and every output is copied out of its own."""
        return all(
            (kept := self._kept.get(port.place.memory)) and kept.array is inputs[port.name]
            for port in self.inputs
        ) and all(owns and port.place.memory in self._kept for port, owns in self._owning())

    def _binding(
        self, inputs: Mapping[str, Any]
    ) -> tuple[dict[str, DeviceBuffer], dict[str, Callable[[], Array]]]:
        """Return the memory of a run, and what gives each output after it."""
        _check_names("input", inputs, self.inputs)
        self.handle.session.device.check_usable()
        self._last.clear()
        memory = dict(self.memory)
        for port in self.inputs:
            given = self._given(port, inputs[port.name])
            if port.type.elements:  # else nobody reads it
                memory[port.place.memory] = (
                    self._uploaded(port, given) if isinstance(given, np.ndarray) else given
                )
        # Others may lie in the memory of an output: theirs is not to be as small as they are.
        finishes = {port.name: self._output(port, memory, owns) for port, owns in self._owning()}
        return memory, {port.name: finishes[port.name] for port in self.outputs}

    def _uploaded(self, port: Port, array: Array) -> DeviceBuffer:
        """Return an array's memory: that of the run before, where it was used in place then."""
        name = port.place.memory
        address = array.__array_interface__["data"][0]
        kept = self._kept.get(name)
        if kept is not None and kept.array is array and kept.address == address:
            return kept.buffer
        buffer = self.handle.session.device.upload(array)
        is_in_place = getattr(buffer, "read_only", False)
        if is_in_place and array.nbytes <= _MOST_KEPT:
            self._kept[name] = _Kept(array, address, buffer)
        else:
            self._kept.pop(name, None)
        return buffer

    def _staged(self, port: Port) -> _Kept | None:
        """Return memory of a small output that all runs write; None where no array can be it."""
        name = port.place.memory
        if name not in self._kept:
            array = aligned(port.type.nbytes).view(port.type.dtype).reshape(port.type.shape)
            buffer = self.handle.session.device.wrap_output(array)
            if buffer is None:
                return None
            self._kept[name] = _Kept(array, 0, buffer)
        return self._kept[name]

    def _given(self, port: Port, value: Any) -> Array | DeviceBuffer:
        """Return an input as memory that the device can take."""
        if not isinstance(value, np.ndarray):
            buffer = self._adopted("input", port, value)
            if buffer is not None:
                return buffer
        array = to_host_array(value, port.name)
        if array.shape != port.type.shape or array.dtype != port.type.dtype:
            raise _misfit("input", port, array.dtype, array.shape)
        check_indices(port, array)
        return np.ascontiguousarray(array)

    def _on_device(
        self, kind: str, ports: Sequence[Port], tensors: Mapping[str, Any]
    ) -> dict[str, DeviceBuffer]:
        """Return the memory of tensors by its name in the schedule; nobody needs empty ones."""
        found: dict[str, DeviceBuffer] = {}
        for port in ports:
            if not port.type.elements:
                continue
            buffer = self._adopted(kind, port, tensors[port.name])
            if buffer is None:
                given = type(tensors[port.name]).__name__
                raise BindingError(f"{kind} {port.name} is a {given}, no tensor of the device")
            found[port.place.memory] = buffer
        return found

    def _adopted(self, kind: str, port: Port, value: Any) -> DeviceBuffer | None:
        """Return the memory of a tensor of the device; None for anything else."""
        form: TensorForm | None
        if isinstance(value, DeviceTensor):
            form, buffer = value.form, value.buffer
        else:
            adopted = self.handle.session.device.adopt(value)
            if adopted is None:
                return None
            buffer, form = adopted, getattr(adopted, "form", None)
        if form is not None and (
            form.shape != port.type.shape
            or form.dtype != port.type.dtype.name
            or not _is_c_order(form)
        ):
            raise _misfit(kind, port, form.dtype, form.shape)
        if buffer.size < port.type.nbytes:
            told = f"{port.type.nbytes} bytes, and its memory has {buffer.size}"
            raise BindingError(f"{kind} {port.name} takes {told}")
        return buffer

    def _output(
        self, port: Port, memory: dict[str, DeviceBuffer], owns: bool
    ) -> Callable[[], Array]:
        """Put an output's memory among the others; return what gives its array after the run.

        Args:
            port: the output.
            memory: where its memory comes to.
            owns: whether it has any of its own.
        """
        device, kind, name = self.handle.session.device, port.type, port.place.memory
        if owns and 0 < kind.nbytes <= _MOST_STAGED and (staged := self._staged(port)):
            memory[name] = staged.buffer
            return staged.array.copy
        array = aligned(kind.nbytes).view(kind.dtype).reshape(kind.shape)
        if not array.size:
            return lambda: array
        if owns:
            shared = device.wrap_output(array)
            if shared is not None:
                memory[name] = shared
                return lambda: array
            memory[name] = device.allocate(kind.nbytes)

        def read() -> Array:
            device.read(memory[name], array, port.place.offset)
            return array

        return read


def _is_c_order(form: TensorForm) -> bool:
    step = 1
    for size, given in zip(reversed(form.shape), reversed(form.strides), strict=True):
        if size > 1 and given != step:
            return False
        step *= size
    return True


def _misfit(kind: str, port: Port, dtype: object, shape: Sequence[int]) -> BindingError:
    return BindingError(f"{kind} {port.name} is {port.type}, not {dtype}{list(shape)}")


def _check_names(kind: str, given: Mapping[str, Any], ports: Sequence[Port]) -> None:
    """Raise `BindingError` unless there is a tensor for every port and no other."""
    for port in ports:
        if port.name not in given:
            raise BindingError(f"{kind} {port.name} is missing: {port.type}")
    unknown = given.keys() - {port.name for port in ports}
    if unknown:
        raise BindingError(f"no such {kind}: {', '.join(sorted(unknown))}")
