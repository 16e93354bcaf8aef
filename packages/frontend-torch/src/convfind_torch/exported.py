"""`Exported`: a graph of Dynamo's as convfind-networks reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from convfind.errors import ConvfindError


class Unsuited(Exception):
    """Why a graph is none for a plan."""


@dataclass(frozen=True)
class Exported:
    """A graph whose parameters and buffers are inputs of it.

    The network has tensors that are channels last with their channels as the last dimension: there
    they lie as networks want their inputs, and give their outputs, and nothing is copied.
    """

    network: Any
    names: tuple[str, ...]  # of the inputs, in Dynamo's order
    constant: tuple[bool, ...]  # which of them belong to the model
    dtypes: tuple[str, ...]  # of the outputs
    inputs_last: tuple[bool, ...]  # which are channels last, of the outputs too
    outputs_last: tuple[bool, ...]

    @classmethod
    def of(cls, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Self:
        """Export a graph. Raises `Unsuited`, `ConvfindError`, or `ImportError` without networks."""
        from torch._dynamo.convert_frame import compile_lock

        with compile_lock:  # PyTorch's exporter changes operators for all threads meanwhile
            return cls._of(graph, examples)

    @classmethod
    def _of(cls, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Self:
        from convfind_networks import Network

        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        pairs = zip(placeholders, examples, strict=True)
        constant = tuple(is_constant(*pair) for pair in pairs)
        kind = examples[0].device.type
        try:
            # Dynamo's symbols are none of a fixed graph's.
            with torch._guards.tracing(None):
                results = _results(graph, examples)
                inputs_last = tuple(
                    not belongs and _has_channels_at_end(one)
                    for belongs, one in zip(constant, examples, strict=True)
                )
                outputs_last = tuple(map(_has_channels_at_end, results))
                moved = _ChannelsMoved(graph, inputs_last, outputs_last)
                # The exporter would guard what views are views of, which its decompositions forget.
                given = (
                    one if belongs else _channels_to_end(one, is_last).data
                    for one, belongs, is_last in zip(examples, constant, inputs_last, strict=True)
                )
                with torch.autocast(kind, enabled=False):  # plans have their own way of it
                    program = torch.export.export(moved, tuple(given))
        except Exception as error:  # PyTorch's exporter raises whatever it meets
            raise Unsuited(f"PyTorch does not export it: {error}") from error
        if any(one.kind.name == "PARAMETER" for one in program.graph_signature.input_specs):
            # As before PyTorch 2.5: nobody would notice that they change.
            raise Unsuited("parameters are inside of PyTorch's graph, not inputs of it")
        try:
            network = Network.from_torch(program, name="graph")
        except ConvfindError:
            raise
        except Exception as error:  # as its exporter, so its decompositions
            raise Unsuited(f"PyTorch does not decompose it: {error}") from error
        if not hasattr(network, "compile"):
            raise Unsuited("convfind-networks makes no plans; install a newer one")
        names = tuple(one.name for one in network.inputs)
        if len(names) != len(examples):
            raise Unsuited("the exported graph has other inputs")
        if not program.graph_signature.output_specs:
            raise Unsuited("the graph has no outputs")
        dtypes = tuple(str(one.dtype).removeprefix("torch.") for one in results)
        return cls(network, names, constant, dtypes, inputs_last, outputs_last)

    def given(self, at: int, tensor: torch.Tensor) -> torch.Tensor:
        """Return an input, by its number, as the network takes it."""
        return _channels_to_end(tensor, self.inputs_last[at])

    def returned(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the network's outputs as PyTorch returns them."""
        return tuple(map(_channels_from_end, outputs, self.outputs_last))


class _ChannelsMoved(nn.Module):
    """A graph that takes and returns some tensors with their channels as the last dimension."""

    def __init__(
        self, graph: nn.Module, inputs_last: Sequence[bool], outputs_last: Sequence[bool]
    ) -> None:
        super().__init__()
        self._graph, self._inputs_last, self._outputs_last = graph, inputs_last, outputs_last

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Compute the graph's outputs."""
        results = self._graph(*map(_channels_from_end, tensors, self._inputs_last))
        leaves = torch.utils._pytree.tree_leaves(results)
        return tuple(map(_channels_to_end, leaves, self._outputs_last))


def _results(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> list[torch.Tensor]:
    """Return tensors in the types and memory formats that PyTorch computes, without memory."""
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        results = graph(*map(fake.from_tensor, examples))
    leaves: list[torch.Tensor] = torch.utils._pytree.tree_leaves(results)
    if not all(isinstance(one, torch.Tensor) for one in leaves):
        raise TypeError("an output is no tensor")
    return leaves


def _has_channels_at_end(tensor: torch.Tensor) -> bool:
    """Return whether memory is dense with the second dimension as the innermost one."""
    at_end = tensor.dim() > 2 and tensor.movedim(1, -1).is_contiguous()
    return at_end and not tensor.is_contiguous()


def _channels_to_end(tensor: torch.Tensor, is_last: bool) -> torch.Tensor:
    return tensor.movedim(1, -1) if is_last else tensor


def _channels_from_end(tensor: torch.Tensor, is_last: bool) -> torch.Tensor:
    return tensor.movedim(-1, 1) if is_last else tensor


def is_constant(node: torch.fx.Node, example: torch.Tensor) -> bool:
    """Return whether an input belongs to the model: a parameter or a buffer."""
    known = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return isinstance(example, nn.Parameter) or known is not None
