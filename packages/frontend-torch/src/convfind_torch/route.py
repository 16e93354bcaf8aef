"""`Route`: where convolutions of one form are computed, and why there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from convfind.handle.convolution import Convolution
from convfind.problem import ConvProblem
from convfind_torch.comparison import Comparison
from convfind_torch.place import Place, Run


@dataclass(eq=False, slots=True)
class Way:
    """A prepared convolution on a device, for tensors in one memory format."""

    problem: ConvProblem
    place: Place
    convolution: Convolution
    format: torch.memory_format
    shape: tuple[int, ...] = field(init=False)  # of the result
    plain: Mapping[str, str] = field(init=False)  # the plain problem's names of operands
    ready: Run = field(init=False)  # the convolution, of tensors in the problem's order

    def __post_init__(self) -> None:
        problem = self.problem
        self.shape = problem.shape(problem.direction.writes)
        names = (*problem.reads, *problem.writes)
        self.plain = {name: problem.plain_name(name) for name in names}
        self.ready = self.prepared(self.convolution)

    def prepared(self, convolution: Convolution) -> Run:
        """Return the way's convolution, or that with its weights bound, ready for tensors."""
        plain, problem = self.plain, self.problem
        is_bound = bool(convolution.bound)
        reads = [plain[name] for name in problem.reads if not (is_bound and name == "w")]
        return self.place.ready(convolution, reads, plain[problem.writes[0]])

    def run(self, tensors: Mapping[str, torch.Tensor], bound: Run | None = None) -> torch.Tensor:
        """Compute the result of tensors by the names that the problem reads.

        Args:
            tensors: all but those that are bound.
            bound: what `prepared` returned for bound weights, which are none of the tensors.
        """
        layout = self.format
        like = next(iter(tensors.values()))
        out = torch.empty(self.shape, dtype=like.dtype, device=like.device, memory_format=layout)
        dense = [
            _dense(tensors[name], torch.contiguous_format if name == "bias" else layout)
            for name in self.problem.reads
            if name in tensors
        ]
        (bound or self.ready)(dense, out)
        return out


def _dense(tensor: torch.Tensor, layout: torch.memory_format) -> torch.Tensor:
    """Return a tensor whose memory holds its numbers: a lazy sign of gradients is applied."""
    return tensor.resolve_neg().contiguous(memory_format=layout)


@dataclass(eq=False, slots=True)
class Route:
    """A decision about the calls of one form, or of one graph; counts them."""

    description: str  # the problem's key, or what the tensors are
    reason: str  # why it is computed where it is
    way: Way | None = None  # None: PyTorch computes it
    comparison: Comparison | None = None
    calls: int = 0
    where: str = ""  # what computes it, where that is no solver
    is_final: bool = True  # False: the next call of the form decides anew

    @property
    def is_ours(self) -> bool:
        """True where convfind computes it, in this process."""
        return self.way is not None and self.way.place.is_usable

    def counted(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that computes the same, and whose calls are counted here."""

        def call(*arguments: Any) -> Any:
            self.calls += 1
            return run(*arguments)

        return call
