"""`Place`: where the tensors of one of PyTorch's devices are computed by convfind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import RLock
from typing import Any

import numpy as np
import torch

import convfind
from convfind.device.target import DeviceKind
from convfind.errors import ConvfindError
from convfind.handle import Handle
from convfind.handle.convolution import Convolution
from convfind.runtime.backend import DeviceBuffer, InvokeArgs
from convfind.settings import Settings
from convfind_torch.openmp import release_cores

Array = np.ndarray[Any, Any]


class Place:
    """An open device, for one thread at a time: `lock` is held while it is used."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.lock = RLock()
        self._process = os.getpid()

    @property
    def is_usable(self) -> bool:
        """False in a process that was forked since: runtimes do not survive that."""
        return os.getpid() == self._process

    def run(
        self, convolution: Convolution, tensors: Mapping[str, torch.Tensor], out: torch.Tensor
    ) -> None:
        """Compute ``out`` from dense tensors by the names that the problem reads."""
        with self.lock:
            convolution.run(**{name: one.detach() for name, one in tensors.items()}, out=out)

    def bind(self, solution: convfind.Solution, w: torch.Tensor) -> Convolution:
        """Fix weights: what a solver packs of them is packed here, once."""
        with self.lock:
            return self.handle.bind(solution, w=w.detach())

    def synchronize(self) -> None:
        """Wait for all that PyTorch and convfind have enqueued."""
        torch.cuda.synchronize()


class HostPlace(Place):
    """A CPU: kernels work on the memory of PyTorch's tensors."""

    def run(
        self, convolution: Convolution, tensors: Mapping[str, torch.Tensor], out: torch.Tensor
    ) -> None:
        """Compute ``out`` from dense tensors by the names that the problem reads."""
        problem, device = convolution.problem, convolution.device
        (name,), result = problem.writes, host_array(out)
        with self.lock:
            buffers: dict[str, DeviceBuffer | None] = {
                problem.plain_name(one): device.upload(host_array(tensor))
                for one, tensor in tensors.items()
            }
            written = device.wrap_output(result)
            memory = device.allocate(result.nbytes) if written is None else written
            buffers[problem.plain_name(name)] = memory
            if convolution.workspace_size:
                buffers["workspace"] = device.allocate(convolution.workspace_size)
            release_cores()
            convolution.enqueue(InvokeArgs(**convolution.bound, **buffers))
            if written is None:
                device.read(memory, result)
            else:
                device.synchronize()

    def synchronize(self) -> None:
        """Do nothing: on the host calls return when they are done."""


def host_array(tensor: torch.Tensor) -> Array:
    """Return the memory of a dense tensor of the host, as one axis."""
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    if flat.dtype is torch.bfloat16:
        flat = flat.view(torch.int16)  # NumPy has no such type, and kernels see bytes
    array: Array = flat.numpy()
    return array


def open_place(device: torch.device, stream: int = 0) -> Place | str:
    """Open the device that computes on tensors of one of PyTorch's; else say why there is none."""
    try:
        if device.type == "cpu":
            return HostPlace(convfind.open(_cpu_name()))
        if device.type == "cuda":
            return Place(_gpu(device.index or 0, stream))
    except (ConvfindError, OSError) as error:
        return str(error)
    return f"convfind has no devices of PyTorch's type {device.type}"


def _cpu_name() -> str:
    """Return the name of the CPU among the devices: the environment's, or the first."""
    chosen = Settings.from_environment().device
    listed = convfind.devices()
    names = [name for name, target in listed.devices if target.kind is DeviceKind.CPU]
    if chosen in names:
        return str(chosen)
    if names:
        return names[0]
    why = "".join(f"; {backend}: {reason}" for backend, reason in listed.failures.items())
    msg = f"no backend has a CPU; pip install convfind-backend-opencl[cpu] gives one{why}"
    raise convfind.BackendUnavailableError(msg)


def _gpu(number: int, stream: int) -> Handle:
    """Open a GPU of PyTorch's on the stream that its operators use."""
    from convfind.plugins.registry import default_registry

    name = "hip" if torch.version.hip else "cuda"
    backend = default_registry().backends.get(name)
    open_native = getattr(backend, "open_native", None)
    if open_native is None:
        msg = f"no backend for {name} devices is installed; pip install convfind-backend-{name}"
        raise convfind.BackendUnavailableError(msg)
    return convfind.handle_for(open_native(stream, number))
