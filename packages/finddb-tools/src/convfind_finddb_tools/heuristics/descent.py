"""`Descent`: the optimiser of perceptrons. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_EAGER = 3  # steps before a graph is recorded: libraries and allocators have to be warm

Loss = Callable[..., torch.Tensor]


class Descent:
    """AdamW with a learning rate that rises and falls once.

    On a GPU a whole step is one CUDA graph, because launching perceptrons this small takes ten
    times as long as computing them. There the momentum is constant; on a CPU it falls and rises.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        loss: Loss,
        rows: Sequence[torch.Tensor],
        *,
        rate: float,
        decay: float,
        steps: int,
    ) -> None:
        """Prepare so many steps.

        Args:
            parameters: what is learned.
            loss: of the parameters, for rows of the sizes of ``rows``.
            rows: memory that the rows of a step are copied to, on the parameters' device.
            rate: the highest.
            decay: of the weights.
            steps: how many there will be.
        """
        self._loss, self._rows, self._done = loss, rows, 0
        self._is_graph = parameters[0].is_cuda
        # A graph reads the rate from the device's memory.
        first: Any = torch.tensor(rate, device=parameters[0].device) if self._is_graph else rate
        self._optimizer = torch.optim.AdamW(
            list(parameters), first, weight_decay=decay, capturable=self._is_graph
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer,
            rate,
            total_steps=steps + 1,
            pct_start=0.1,
            cycle_momentum=not self._is_graph,
        )
        self._graph: Any = None

    def step(self, *rows: torch.Tensor) -> None:
        """Step down the loss of these rows."""
        for memory, values in zip(self._rows, rows, strict=True):
            memory.copy_(values)
        if not self._is_graph:
            self._descend()
        elif self._done < _EAGER:
            self._warm_up()
        else:
            if self._graph is None:
                self._record()
            self._graph.replay()
        self._schedule.step()
        self._done += 1

    def _descend(self) -> None:
        loss: Any = self._loss(*self._rows)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()

    def _warm_up(self) -> None:
        """A step on a stream of its own, as PyTorch asks for before a recording."""
        cuda: Any = torch.cuda
        stream = cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._descend()
        torch.cuda.current_stream().wait_stream(stream)

    def _record(self) -> None:
        self._optimizer.zero_grad()  # so that gradients are in the graph's own memory
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._descend()
