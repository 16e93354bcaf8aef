"""`Convolution`: a solution made ready to run, with or without its weights bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convfind.errors import ProblemError, WorkspaceError
from convfind.find.solution import Solution
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, DeviceBuffer, InvokeArgs, Invoker, TensorForm
from convfind.runtime.tensors import (
    DeviceTensor,
    check_form,
    empty_memory,
    memory_of,
    tensor_view,
    to_host_array,
)
from convfind.solver.recipe import Recipe

Array = np.ndarray[Any, Any]

_UNBOUND = InvokeArgs()


@dataclass(frozen=True, slots=True)
class Convolution:
    """A solution made ready: kernels loaded, arguments set; see `Handle.prepare`, `Handle.bind`.

    `run` takes and returns tensors; `enqueue` is the quick way for memory that is on the device.
    """

    problem: ConvProblem
    solution: Solution
    recipe: Recipe
    device: Device
    invoker: Invoker
    workspace_size: int  # bytes that a run needs
    bound: InvokeArgs = _UNBOUND  # what binding fixed: w and packed weights

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
        out: object = None,
        workspace: object = None,
    ) -> Any:
        """Compute the third tensor from the two that the direction reads.

        Args:
            x, w, y: NumPy arrays, host tensors with DLPack, tensors of the backend's own
                library, or `DeviceTensor`. Bound weights are left out.
            out: where to write; an array, tensor or `DeviceTensor`. Needed where beta is not 0.
            workspace: device memory of `workspace_size` bytes; None takes it from the pool.

        Returns:
            ``out`` if given, else a NumPy array; a `DeviceTensor` if every input is on the device.

        Raises:
            ProblemError: a tensor is missing, of a wrong shape or type.
            WorkspaceError: the workspace given is too small.
        """
        given = {"x": x, "w": w, "y": y}
        buffers, all_on_device = self._inputs(given)
        buffer, finish = self._output(out, on_device=all_on_device)
        buffers[self.problem.plain_name(self.problem.direction.writes)] = buffer
        self.invoker(replace(self.bound, workspace=self._workspace(workspace), **buffers))
        return finish()

    # -- tensors ----------------------------------------------------------------------------------

    def _inputs(self, given: dict[str, object]) -> tuple[dict[str, DeviceBuffer], bool]:
        problem = self.problem
        buffers: dict[str, DeviceBuffer] = {}
        on_device = True
        for name in ("x", "w", "y"):
            value = given[name]
            is_bound = name == "w" and self.bound.w is not None
            if name not in problem.direction.reads or is_bound:
                if value is not None:
                    why = (
                        "nothing: the weights are bound"
                        if is_bound
                        else "nothing: it is the result; use out="
                    )
                    raise ProblemError(name, type(value).__name__, why)
                continue
            if value is None:
                raise ProblemError(name, None, f"a tensor: {problem.direction} reads {name}")
            buffer = device_memory(self.device, problem, name, value)
            if buffer is None:
                on_device = False
                buffer = self.device.upload(memory_of(problem, name, value))
            buffers[problem.plain_name(name)] = buffer
        return buffers, on_device

    def _output(self, out: object, *, on_device: bool) -> tuple[DeviceBuffer, Any]:
        """Return the memory to write, and the function that turns it into what the caller gets."""
        problem, device, name = self.problem, self.device, self.problem.direction.writes
        if out is None:
            if problem.beta:
                raise ProblemError(
                    "out", None, f"the previous contents of {name}, as beta is not 0"
                )
            if on_device:
                buffer = device.allocate(problem.nbytes(name))
                return buffer, lambda: _device_tensor(problem, name, buffer)
            memory = empty_memory(problem, name)
            return self._host_output(memory, tensor_view(problem, name, memory))
        known = device_memory(device, problem, name, out)
        if known is not None:
            return known, lambda: out
        target = _writable(out)
        memory = memory_of(problem, name, target)
        view = tensor_view(problem, name, memory)
        buffer, finish = self._host_output(memory, view)

        def copy_back() -> object:
            result = finish()
            if not np.shares_memory(target, result):
                target[...] = result if target.shape == result.shape else np.moveaxis(result, -1, 1)
            return out

        return buffer, copy_back

    def _host_output(self, memory: Array, view: Array) -> tuple[DeviceBuffer, Any]:
        device = self.device
        shared = device.wrap_output(memory)
        if shared is not None:

            def wait() -> Array:
                device.synchronize()
                return view

            return shared, wait
        buffer = device.allocate(memory.nbytes)
        if self.problem.beta or view.size != memory.size:
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
        if buffer.size < self.workspace_size:
            needed = f"{self.solution.solver} needs {self.workspace_size}"
            msg = f"workspace has {buffer.size} bytes; {needed}"
            raise WorkspaceError(msg)
        return buffer


def _device_tensor(problem: ConvProblem, name: str, buffer: DeviceBuffer) -> DeviceTensor:
    layout = problem.tensor_layout(name)
    shape = layout.to_memory(problem.shape(name))
    strides = layout.to_memory(problem.strides(name))
    return DeviceTensor(buffer, shape, problem.tensor_dtype(name), strides)


def device_memory(
    device: Device, problem: ConvProblem, name: str, value: object
) -> DeviceBuffer | None:
    """Return the memory of a tensor that is on the device already; None for host tensors."""
    if isinstance(value, DeviceTensor):
        check_form(problem, name, value.form)
        buffer: DeviceBuffer | None = value.buffer
    else:
        buffer = device.adopt(value)
        form: TensorForm | None = getattr(buffer, "form", None)
        if form is not None:
            check_form(problem, name, form)
    if buffer is not None and buffer.size < problem.nbytes(name):
        raise ProblemError(name, f"{buffer.size} bytes", f"{problem.nbytes(name)} bytes or more")
    return buffer


def _writable(out: object) -> Array:
    """The caller's own memory as an array."""
    if not isinstance(out, np.ndarray) and not hasattr(out, "__dlpack_device__"):
        raise ProblemError("out", type(out).__name__, "a writable array or DLPack tensor")
    target = to_host_array(out)
    if not target.flags.writeable:
        raise ProblemError("out", "read-only array", "a writable array")
    return target
