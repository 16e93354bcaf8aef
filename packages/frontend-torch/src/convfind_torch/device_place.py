"""`DevicePlace`: a GPU, where kernels work on PyTorch's tensors, on its streams, in its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import torch

import convfind
from convfind.backend_kit.addressed import AddressBlock, AddressBuffer
from convfind.cached import RecentlyUsed
from convfind.handle import Handle
from convfind.handle.convolution import Convolution
from convfind.runtime.backend import InvokeArgs
from convfind_torch.place import AddressedRun, Place, Run

#: Kernels expect addresses to be multiples of it; PyTorch's allocator gives more.
_ALIGNMENT = 16

#: Pieces of memory whose buffers are kept.
_MOST_ADDRESSES = 4096

#: Bytes of PyTorch's that are worth giving back before a find is tried again.
_WORTHWHILE = 1 << 20


#: Cycles that the device is held for, first and at most: one and 64 ms.
_HOLD = 1 << 21
_LONGEST_HOLD = 1 << 27


class _Forms(NamedTuple):
    """The tensors of a plan: names of its inputs, forms of its outputs."""

    inputs: tuple[str, ...]
    outputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    memory: tuple[str, ...]  # the memory of both in the schedule; empty where it has no elements

    @classmethod
    def of(cls, plan: Any) -> Self:
        """Return those of a plan of convfind-networks."""
        return cls(
            tuple(port.name for port in plan.inputs),
            tuple((one.type.shape, getattr(torch, one.type.dtype.name)) for one in plan.outputs),
            tuple(
                port.place.memory if port.type.elements else ""
                for port in (*plan.inputs, *plan.outputs)
            ),
        )


class DevicePlace(Place):
    """A GPU. Nothing is copied, nothing waits, and scratch memory comes from PyTorch's allocator.

    So calls may be captured in a CUDA graph of the caller's.
    """

    calls_in_a_sample = 10
    is_asynchronous = True

    def __init__(self, handle: Handle, device: torch.device) -> None:
        super().__init__(handle)
        self._device = device
        self._memory = Addresses(handle.session.device)
        self._captured: dict[int, Convolution] = {}  # graphs need their kernels for ever
        self._forms = WeakKeyDictionary[Any, _Forms]()  # of plans
        built = torch.version.cuda is not None or torch.version.hip is not None
        # The function that PyTorch's own calls, without the call around it.
        quick = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
        self._asked = (quick or torch.cuda.is_current_stream_capturing) if built else _never

    @property
    def is_capturing(self) -> bool:
        """True where work becomes part of a graph of the caller's, and does not run."""
        return self._asked()

    def ready(self, convolution: Convolution, reads: Sequence[str], result: str) -> Run:
        """Return what computes a result: by the tensors' addresses where kernels take any."""
        usual = super().ready(convolution, reads, result)
        run = self.addressed(convolution, reads, result)
        return usual if run is None else DeviceRun(self, run, usual, convolution.workspace_size)

    def run(
        self,
        convolution: Convolution,
        tensors: Mapping[str, torch.Tensor],
        result: str,
        out: torch.Tensor,
    ) -> None:
        """Compute ``out``, the result, from dense tensors, by their names in the plain problem."""
        memory = self._memory
        used = [in_place(one) for one in tensors.values()]  # kept until the kernels are enqueued
        size = convolution.workspace_size
        scratch = torch.empty(size, dtype=torch.uint8, device=out.device) if size else None
        with self.lock:
            buffers = {name: memory.of(tensor) for name, tensor in zip(tensors, used, strict=True)}
            buffers[result] = memory.of(out)
            if scratch is not None:
                buffers["workspace"] = memory.of(scratch)
            convolution.enqueue(InvokeArgs(**convolution.bound, **buffers))
            if self._asked():
                self._captured[id(convolution)] = convolution

    def run_network(
        self, plan: Any, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Compute the outputs of a plan of convfind-networks from its inputs by name."""
        forms = self._forms.get(plan)
        if forms is None:
            forms = self._forms[plan] = _Forms.of(plan)
        # Kept until the kernels are enqueued.
        used = [in_place(inputs[name].resolve_neg().contiguous()) for name in forms.inputs]
        made = [
            torch.empty(shape, dtype=dtype, device=self._device) for shape, dtype in forms.outputs
        ]
        with self.lock:
            buffers = map(self._memory.of, (*used, *made))
            plan.enqueue_memory(
                {name: one for name, one in zip(forms.memory, buffers, strict=True) if name}
            )
        return tuple(made)

    def bind(self, solution: convfind.Solution, w: torch.Tensor) -> Convolution:
        """Fix weights: what a solver packs of them is packed here, once."""
        return super().bind(solution, in_place(w))

    def synchronize(self) -> None:
        """Wait for all that PyTorch and convfind have enqueued."""
        torch.cuda.synchronize(self._device)

    def milliseconds(self, work: Callable[[], object], *, replayed: bool = False) -> float:
        """Return milliseconds of work; where it is replayed later, of the device alone.

        For that the device is held until the host has enqueued everything.
        """
        if not replayed:
            return super().milliseconds(work)
        cuda: Any = torch.cuda  # which has no types for `_sleep`
        cycles = _HOLD
        while True:
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            cuda._sleep(cycles)
            begin.record()
            work()
            end.record()
            is_held = not begin.query()
            self.synchronize()
            if is_held or cycles >= _LONGEST_HOLD:
                return float(begin.elapsed_time(end))
            cycles *= 4

    def make_room(self) -> bool:
        """Give PyTorch's idle memory back to the device; False where there is none to speak of."""
        idle = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        if self.is_capturing or idle < _WORTHWHILE:
            return False
        torch.cuda.empty_cache()
        return True

    def trim(self) -> None:
        """Give convfind's idle memory back, which PyTorch may want."""
        trim = getattr(self.handle.session.device, "trim", None)
        if trim is not None:
            trim()


class DeviceRun(AddressedRun[DevicePlace]):
    """A prepared convolution on tensors of a GPU, by their addresses."""

    __slots__ = ()

    def __call__(self, tensors: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        """Enqueue the computation of ``out`` from dense tensors in the problem's order."""
        if self._place.is_capturing:  # the graph keeps kernels, and memory that is copied
            return self._usual(tensors, out)
        addresses = [one.data_ptr() for one in tensors]
        addresses.append(out.data_ptr())
        for address in addresses:
            if address % _ALIGNMENT:
                return self._usual(tensors, out)
        if self._scratch:  # kept until the kernels are enqueued
            scratch = torch.empty(self._scratch, dtype=torch.uint8, device=out.device)
            addresses.append(scratch.data_ptr())
        with self._lock:
            self._at_addresses(addresses)


class Addresses:
    """Memory of PyTorch's as buffers, by address: what lies there may come and go.

    PyTorch's allocator gives the same addresses again and again. A buffer keeps nothing alive: that
    allocator gives memory to later work of the same stream only.
    """

    def __init__(self, device: Any) -> None:
        self._make: type[AddressBuffer] = device.buffer_type
        self._buffers = RecentlyUsed[tuple[int, int], AddressBuffer](_MOST_ADDRESSES)

    def of(self, tensor: torch.Tensor) -> AddressBuffer:
        """Return the memory of a dense tensor."""
        place = (tensor.data_ptr(), tensor.nbytes)
        buffer = self._buffers.get(place)
        if buffer is None:
            buffer = self._make(AddressBlock(*place), place[1])
            self._buffers.put(place, buffer)
        return buffer


def _never() -> bool:
    return False


def in_place(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that kernels can use where it lies: the same, unless its address is odd."""
    return tensor.clone() if tensor.data_ptr() % _ALIGNMENT else tensor
