"""`open_place`: the place of a device of PyTorch's; `HostPlace`: the CPU, and its memory."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

import convfind
from convfind.cached import RecentlyUsed
from convfind.device.target import DeviceKind
from convfind.errors import ConvfindError
from convfind.handle import Handle
from convfind.handle.convolution import Convolution
from convfind.install_hint import pip_install
from convfind.runtime.backend import Device, DeviceBuffer, InvokeArgs
from convfind.settings import Settings
from convfind.types import DataType
from convfind_torch.device_place import DevicePlace
from convfind_torch.openmp import release_cores
from convfind_torch.place import AddressedRun, Place, Run

Array = np.ndarray[Any, Any]

#: Pieces of the host's memory whose buffers are kept.
_MOST_ADDRESSES = 4096
#: Bytes that addresses of kernels' arguments are multiples of.
_ALIGNMENT = 64
#: Bytes of a workspace that is kept for all calls, at most: longer calls do not notice the pool's.
_MOST_SCRATCH = 2**26


class HostPlace(Place):
    """A CPU: kernels work on the memory of PyTorch's tensors."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self._memory = HostAddresses(handle.session.device)
        self._scratch, self._scratch_address = np.empty(0, np.uint8), 0

    def ready(self, convolution: Convolution, reads: Sequence[str], result: str) -> Run:
        """Return what computes a result: by the tensors' addresses where kernels take any."""
        size = convolution.workspace_size
        usual = super().ready(convolution, reads, result)
        run = self.addressed(convolution, reads, result)
        if run is None or size > _MOST_SCRATCH:
            return usual
        return HostRun(self, run, usual, size)

    def scratch(self, size: int) -> int:
        """Return the address of memory for workspaces, the same for all calls, one at a time."""
        if self._scratch.size < size:
            whole = np.empty(size + _ALIGNMENT, np.uint8)
            begin = -whole.ctypes.data % _ALIGNMENT
            self._scratch = whole[begin : begin + size]
            self._scratch_address = int(self._scratch.ctypes.data)
        return self._scratch_address

    def run(
        self,
        convolution: Convolution,
        tensors: Mapping[str, torch.Tensor],
        result: str,
        out: torch.Tensor,
    ) -> None:
        """Compute ``out``, the result, from dense tensors, by their names in the plain problem."""
        device, memory = convolution.device, self._memory
        with self.lock:
            buffers = {name: memory.of(tensor) for name, tensor in tensors.items()}
            written = memory.shared(out)
            buffers[result] = device.allocate(out.nbytes) if written is None else written
            if convolution.workspace_size:
                buffers["workspace"] = device.allocate(convolution.workspace_size)
            release_cores()
            try:
                convolution.enqueue(InvokeArgs(**convolution.bound, **buffers))
            finally:
                device.synchronize()  # whatever happens: the tensors may go now
            if written is None:
                device.read(buffers[result], host_array(out))

    def run_network(
        self, plan: Any, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Compute the outputs of a plan of convfind-networks from its inputs by name."""
        given = {name: network_array(one) for name, one in inputs.items()}
        with self.lock:
            release_cores()
            found = plan.run(given)
        return tuple(_tensor(array) for array in found.values())

    def synchronize(self) -> None:
        """Do nothing: on the host calls return when they are done."""


class HostRun(AddressedRun[HostPlace]):
    """A prepared convolution on tensors of the host, by their addresses."""

    __slots__ = ()

    def __call__(self, tensors: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        """Compute ``out`` from dense tensors in the problem's order, and wait."""
        addresses = [one.data_ptr() for one in tensors]
        addresses.append(out.data_ptr())
        for address in addresses:
            if address % _ALIGNMENT:
                return self._usual(tensors, out)
        with self._lock:
            if self._scratch:
                addresses.append(self._place.scratch(self._scratch))
            if not getattr(self._at_addresses, "is_local", False):
                release_cores()  # others than this thread compute, too
            self._at_addresses(addresses)


class HostAddresses:
    """Memory of the host as buffers, by address: what lies there may come and go.

    A buffer keeps nothing alive and is used only while a call has tensors there. Networks use the
    same memory again and again, and making a buffer takes longer than a small convolution.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._shared = RecentlyUsed[tuple[int, int], DeviceBuffer](_MOST_ADDRESSES)

    def shared(self, tensor: torch.Tensor) -> DeviceBuffer | None:
        """Return the memory of a dense tensor; None where kernels cannot use it as it is."""
        place = (tensor.data_ptr(), tensor.nbytes)
        buffer = self._shared.get(place)
        if buffer is None and place[1]:
            address, size = place
            view = memoryview((ctypes.c_ubyte * size).from_address(address))
            memory = np.frombuffer(view, np.uint8)
            buffer = self._device.wrap_output(memory)
            if buffer is not None:
                self._shared.put(place, buffer)
        return buffer

    def of(self, tensor: torch.Tensor) -> DeviceBuffer:
        """Return the memory of a dense tensor, or a copy of it."""
        shared = self.shared(tensor)
        return self._device.upload(host_array(tensor)) if shared is None else shared


def host_array(tensor: torch.Tensor) -> Array:
    """Return the memory of a dense tensor of the host, as one axis."""
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    if flat.dtype is torch.bfloat16:
        flat = flat.view(torch.int16)  # NumPy has no such type, and kernels see bytes
    array: Array = flat.numpy()
    return array


def network_array(tensor: torch.Tensor) -> Array:
    """Return a tensor of the host as an array of the same shape, and memory wherever it can."""
    plain = tensor.detach().resolve_neg()
    if plain.dtype is torch.bfloat16:
        plain = plain.view(torch.int16)
    array: Array = plain.numpy()
    return array.view(DataType.BFLOAT16.numpy) if tensor.dtype is torch.bfloat16 else array


def _tensor(array: Array) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def stream_of(tensor: torch.Tensor) -> int:
    """Return the address of the stream that a place is opened on; 0 where places follow PyTorch."""
    if torch.version.hip is None or not tensor.is_cuda:
        return 0
    return int(torch.cuda.current_stream(tensor.device).cuda_stream)


def open_place(device: torch.device, stream: int = 0) -> Place | str:
    """Open the device that computes on tensors of one of PyTorch's; else say why there is none."""
    try:
        if device.type == "cpu":
            return HostPlace(convfind.open(_cpu_name()))
        if device.type == "cuda":
            return DevicePlace(_gpu(device.index or 0, stream), device)
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
    command = pip_install("convfind-backend-opencl[cpu]")
    msg = f"no backend has a CPU; {command} gives one{why}"
    raise convfind.BackendUnavailableError(msg)


def _gpu(number: int, stream: int) -> Handle:
    """Open a GPU of PyTorch's: CUDA's follows PyTorch's streams, ROCm's is for the given one."""
    from convfind.plugins.registry import default_registry

    name = "hip" if torch.version.hip else "cuda"
    backend = default_registry().backends.get(name)
    if backend is None:
        command = pip_install(f"convfind-backend-{name}")
        msg = f"no backend for {name} devices is installed; {command}"
        raise convfind.BackendUnavailableError(msg)
    if name == "cuda":
        return convfind.handle_for(backend.open(str(number)))
    native: Any = backend  # which has more than the contract asks for
    return convfind.handle_for(native.open_native(stream, number))
