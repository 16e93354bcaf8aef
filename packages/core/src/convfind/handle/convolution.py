"""`Convolution`: a solution made ready to run, with or without its weights bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convfind.errors import ProblemError, WorkspaceError
from convfind.find.solution import Solution
from convfind.handle.operand import Operand, operand_of
from convfind.problem import ConvProblem, Problem
from convfind.runtime.backend import Device, DeviceBuffer, InvokeArgs, Invoker
from convfind.runtime.tensors import (
    DeviceTensor,
    empty_memory,
    in_order,
    memory_of,
    tensor_view,
)
from convfind.solver.recipe import Recipe
from convfind.types import Layout

Array = np.ndarray[Any, Any]
#: The options that give a problem these operands.
_ASKED_FOR_BY = {"bias": "bias=True", "z": "add=True"}

Finish = Callable[[], Any]  # waits where the caller gets an array, and returns the caller's result


@dataclass(frozen=True, slots=True)
class Convolution:
    """A solution made ready: kernels loaded, arguments set; see `Handle.prepare`, `Handle.bind`.

    `run` takes and returns tensors; `enqueue` is the quick way for memory that is on the device.
    Threads may run it at once: they take turns. `enqueue` has no lock; `Device.lock` is theirs.
    """

    problem: Problem
    solution: Solution
    recipe: Recipe
    device: Device
    invoker: Invoker
    workspace_size: int  # bytes that a run needs
    #: Operands that binding fixed, by name: w and packed weights.
    bound: Mapping[str, DeviceBuffer] = field(default_factory=dict)

    def enqueue(self, args: InvokeArgs) -> None:
        """Enqueue on the device's queue: no look-up, no allocation, no wait.

        ``args`` names the memory by the letters of the *plain* problem, workspace included.
        """
        self.invoker(args)

    def run(
        self,
        *,
        x: object = None,
        w: object = None,
        y: object = None,
        bias: object = None,
        z: object = None,
        out: object = None,
        workspace: object = None,
        **others: object,
    ) -> Any:
        """Compute the third tensor from the two that the direction reads, and what is added to it.

        A problem of another kind has operands of other names.

        Axes are in N, C, spatial order or in that of the layout: `convfind.runtime.tensors.axes_of`
        says how they are told apart. Inputs may change or go as soon as the call returns.

        Args:
            x: the data (N, C, spatial): a NumPy array, a host tensor with DLPack, a tensor of the
                backend's own library, or a `DeviceTensor`; so are the other tensors.
            w: the weights (K, C / groups, spatial); left out if they are bound.
            y: the result (N, K, spatial) of the forward pass, or its gradient, where it is read.
            bias: of a problem with a bias: as many elements as the result has channels.
            z: of a problem with ``add``: what is added, in the form of the result.
            out: where to write; an array, tensor or `DeviceTensor` that shares no memory with an
                input, except that it may be ``z``, without ``add_last``. Needed where beta is not
                0, without ``add``.
            workspace: device memory of `workspace_size` bytes; None takes it from the pool.

        Returns:
            ``out`` if given, else a NumPy array; a `DeviceTensor` if every input is on the device.
            Its axes have the order of the first input's.

        Raises:
            ProblemError: a tensor is missing, of a wrong shape or type, or its axes could be in
                either order; ``out`` shares memory with an input.
            WorkspaceError: the workspace given is too small, or shares memory with a tensor.
        """
        with self.device.lock:
            given = {"x": x, "w": w, "y": y, "bias": bias, "z": z, **others}
            return self._run(given, z, out, workspace)

    def _run(self, given: dict[str, object], z: object, out: object, workspace: object) -> Any:
        reads = self._inputs(given)
        result, in_place = None, self._may_write_z and z is not None and z is out
        if out is not None:
            result = operand_of(self.device, self.problem, self._result, out, out=True)
            in_place |= self._may_write_z and any(
                one.name == "z" and result.is_array_of(one) for one in reads
            )
            inputs = [one for one in reads if not (in_place and one.name == "z")]
            self._check_arrays_apart(result, inputs)
        stays = all(o.is_on_device for o in reads) if result is None else result.is_on_device
        # While kernels read what the caller keeps, it must not change: so they get a copy, unless
        # this call waits for them.
        buffers = {
            self.problem.plain_name(operand.name): operand.memory(self.device, copying=stays)
            for operand in reads
            if not (in_place and operand.name == "z")
        }
        written, finish = self._written(result, out, _axes(reads), stays=stays, in_place=in_place)
        scratch = self._workspace(workspace)
        if out is not None or workspace is not None:
            self._check_apart(written, scratch, (*buffers.values(), *self.bound.values()))
        buffers[self.problem.plain_name(self._result)] = written
        if in_place:
            buffers["z"] = written
        self.invoker(InvokeArgs(**self.bound, workspace=scratch, **buffers))
        return finish()

    # -- tensors ----------------------------------------------------------------------------------

    def _inputs(self, given: dict[str, object]) -> tuple[Operand, ...]:
        """The tensors that the problem reads, in its order, without bound ones."""
        problem = self.problem
        for name, value in given.items():
            if value is not None and (name in self.bound or name not in problem.reads):
                raise ProblemError(name, type(value).__name__, f"nothing: {self._why_not(name)}")
        operands = []
        for name in problem.reads:
            if name in self.bound:
                continue
            if given.get(name) is None:
                word = getattr(problem, "direction", problem.kind)
                raise ProblemError(name, None, f"a tensor: {word} reads {name}")
            operands.append(operand_of(self.device, problem, name, given[name]))
        return tuple(operands)

    def _why_not(self, name: str) -> str:
        """Why an operand is none of a run."""
        if name in self.bound:
            return "the weights are bound" if name == "w" else f"the {name} is bound"
        if name in _ASKED_FOR_BY:
            return f"the problem has none; it is one with {_ASKED_FOR_BY[name]}"
        if name in self.problem.writes:
            return "it is the result; use out="
        return f"the problem reads {', '.join(self.problem.reads)}"

    @property
    def _result(self) -> str:
        """The name of the result."""
        if len(self.problem.writes) == 1:
            return self.problem.writes[0]
        how = "one with a single result; `enqueue` takes the memory of several"
        raise ProblemError("problem", self.problem.kind, how)

    @property
    def _reads_result(self) -> bool:
        """True if the previous contents of the result are added."""
        return isinstance(self.problem, ConvProblem) and self.problem.reads_result

    @property
    def _may_write_z(self) -> bool:
        """True if the result may lie where z does: it is read before anything is written there."""
        return not (isinstance(self.problem, ConvProblem) and self.problem.add_last)

    @staticmethod
    def _check_arrays_apart(result: Operand, reads: Iterable[Operand]) -> None:
        for operand in reads:
            if result.shares_array(operand):
                raise _shared(operand.name)

    def _written(
        self,
        result: Operand | None,
        out: object,
        axes: Layout | None,
        *,
        stays: bool,
        in_place: bool,
    ) -> tuple[DeviceBuffer, Finish]:
        """Return the memory to write, and the function that turns it into what the caller gets."""
        problem, device, name = self.problem, self.device, self._result
        if result is None and self._reads_result:
            raise ProblemError("out", None, f"the previous contents of {name}, as beta is not 0")
        if result is None and stays:
            buffer = device.allocate(problem.operand(name).nbytes)
            return buffer, lambda: _device_tensor(problem, name, buffer, axes)
        if result is None:
            fresh = empty_memory(problem, name)
            buffer, wait = self._host_result(fresh, is_read=False)
            return buffer, lambda: in_order(problem, name, wait(), axes)
        if result.buffer is not None:
            return result.buffer, lambda: out
        array = result.array
        assert array is not None
        memory = memory_of(problem, name, array)
        is_read = in_place or self._reads_result
        buffer, wait = self._host_result(memory, is_read=is_read)

        def copy_back() -> object:
            view = wait()
            if not np.may_share_memory(array, memory):
                array[...] = view
            return out

        return buffer, copy_back

    def _host_result(
        self, memory: Array, *, is_read: bool
    ) -> tuple[DeviceBuffer, Callable[[], Array]]:
        device = self.device
        view = tensor_view(self.problem, self._result, memory)
        shared = device.wrap_output(memory)
        if shared is not None:

            def wait() -> Array:
                device.synchronize()
                return view

            return shared, wait
        buffer = device.allocate(memory.nbytes)
        if is_read or view.size != memory.size:
            device.write(buffer, memory)

        def read() -> Array:
            device.read(buffer, memory)
            return view

        return buffer, read

    def _workspace(self, given: object) -> DeviceBuffer | None:
        if not self.workspace_size:
            return None
        if given is None:
            return self.device.allocate(self.workspace_size)
        buffer = given.buffer if isinstance(given, DeviceTensor) else self.device.adopt(given)
        if buffer is None:
            msg = f"workspace is a {type(given).__name__}, not memory of {self.device.target.name}"
            raise WorkspaceError(msg)
        if getattr(buffer, "read_only", False):
            raise WorkspaceError("workspace is read-only; pass memory that kernels can write")
        if buffer.size < self.workspace_size:
            needed = f"{self.solution.solver} needs {self.workspace_size}"
            msg = f"workspace has {buffer.size} bytes; {needed}"
            raise WorkspaceError(msg)
        return buffer

    def _check_apart(
        self,
        written: DeviceBuffer,
        scratch: DeviceBuffer | None,
        reads: Iterable[DeviceBuffer | None],
    ) -> None:
        """Refuse results and workspaces in the memory of another operand."""
        overlap = self.device.overlap
        for buffer in reads:
            if buffer is not None and overlap(written, buffer):
                raise _shared("an input")
            if buffer is not None and scratch is not None and overlap(scratch, buffer):
                raise WorkspaceError("workspace shares memory with an input; pass other memory")
        if scratch is not None and overlap(scratch, written):
            raise WorkspaceError("workspace shares memory with the result; pass other memory")


def _axes(reads: Iterable[Operand]) -> Layout | None:
    """The order in which the caller speaks of tensors: the first that tells decides."""
    return next((operand.axes for operand in reads if operand.axes is not None), None)


def _shared(name: str) -> ProblemError:
    return ProblemError("out", f"memory of {name}", "memory that no input shares")


def _device_tensor(
    problem: Problem, name: str, buffer: DeviceBuffer, axes: Layout | None
) -> DeviceTensor:
    operand = problem.operand(name)
    layout, dtype = operand.layout, operand.dtype
    if layout is None:
        return DeviceTensor(buffer, operand.shape, dtype, operand.strides)
    order = axes if axes is not None and layout.channels_last else layout
    shape, strides = order.to_memory(operand.shape), order.to_memory(operand.strides)
    return DeviceTensor(buffer, shape, dtype, strides, order)
