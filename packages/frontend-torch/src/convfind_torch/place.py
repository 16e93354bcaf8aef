"""`Place`: where the tensors of one of PyTorch's devices are computed by convfind."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch

import convfind
from convfind.handle import Handle
from convfind.handle.convolution import Convolution

Run = Callable[[Sequence[torch.Tensor], torch.Tensor], None]


PlaceT = TypeVar("PlaceT", bound="Place")


class AddressedRun(ABC, Generic[PlaceT]):
    """A prepared convolution on dense tensors, by their addresses."""

    __slots__ = ("__weakref__", "_at_addresses", "_lock", "_place", "_scratch", "_usual")

    def __init__(
        self,
        place: PlaceT,
        at_addresses: Callable[[Sequence[int]], None],
        usual: Run,
        scratch: int,
    ) -> None:
        """Keep what runs at addresses, what runs anywhere, and the bytes of the workspace."""
        self._place, self._lock = place, place.lock
        self._at_addresses, self._usual, self._scratch = at_addresses, usual, scratch

    @abstractmethod
    def __call__(self, tensors: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        """Compute ``out`` from dense tensors in the problem's order."""


class Place(ABC):
    """An open device, for one thread at a time: `lock` is held while it is used."""

    #: Calls of a sample when two functions are compared: as many as hide what happens around them.
    calls_in_a_sample = 1

    #: True where calls return before they are computed, so that the host's time may be hidden.
    is_asynchronous = False

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.lock = handle.session.device.lock
        self._process = os.getpid()

    @property
    def is_usable(self) -> bool:
        """False in a process that was forked since: runtimes do not survive that."""
        return os.getpid() == self._process

    @property
    def is_capturing(self) -> bool:
        """True where work becomes part of a graph of the caller's, and does not run."""
        return False

    @abstractmethod
    def run(
        self,
        convolution: Convolution,
        tensors: Mapping[str, torch.Tensor],
        result: str,
        out: torch.Tensor,
    ) -> None:
        """Compute ``out``, the result, from dense tensors, by their names in the plain problem."""

    def ready(self, convolution: Convolution, reads: Sequence[str], result: str) -> Run:
        """Return what computes a result from dense tensors, by names of the plain problem.

        The function gets tensors in the order of the names, and the tensor that it writes.
        """
        return lambda tensors, out: self.run(
            convolution, dict(zip(reads, tensors, strict=True)), result, out
        )

    def addressed(
        self, convolution: Convolution, reads: Sequence[str], result: str
    ) -> Callable[[Sequence[int]], None] | None:
        """Return what runs a convolution at the addresses of its tensors, result and workspace.

        None where its kernels need buffers.
        """
        problem, size = convolution.problem, convolution.workspace_size
        operands = {
            problem.plain_name(name): problem.operand(name).nbytes
            for name in (*problem.reads, *problem.writes)
        }
        sizes = {name: operands[name] for name in (*reads, result)}
        if size:
            sizes["workspace"] = size
        return convolution.device.addressed(convolution.invoker, convolution.bound, sizes)

    @abstractmethod
    def run_network(
        self, plan: Any, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Compute the outputs of a plan of convfind-networks from its inputs by name."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all that PyTorch and convfind have enqueued."""

    def milliseconds(self, work: Callable[[], object], *, replayed: bool = False) -> float:
        """Return milliseconds of work; where it is replayed later, of the device alone."""
        self.synchronize()
        began = time.perf_counter()
        work()
        self.synchronize()
        return (time.perf_counter() - began) * 1e3

    def bind(self, solution: convfind.Solution, w: torch.Tensor) -> Convolution:
        """Fix weights: what a solver packs of them is packed here, once."""
        with self.lock:
            return self.handle.bind(solution, w=w.detach())

    def make_room(self) -> bool:
        """Give PyTorch's idle memory back to the device; False where there is none to speak of."""
        return False

    def trim(self) -> None:  # noqa: B027  # a host has nothing to give back
        """Give convfind's idle memory back, which PyTorch may want."""
