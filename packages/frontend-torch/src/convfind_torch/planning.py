"""A whole graph of Dynamo's as one plan of convfind-networks, with nothing of PyTorch's inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple, Self

import torch

from convfind.errors import ConvfindError
from convfind.policy import POLICY_FIELDS
from convfind.types import DataType
from convfind_torch.comparison import in_turns, median_of
from convfind_torch.engine import engine
from convfind_torch.layer import anonymous
from convfind_torch.openmp import release_cores
from convfind_torch.options import Options
from convfind_torch.places import Place, host_array
from convfind_torch.route import Route

Run = Callable[..., tuple[Any, ...]]


def planned(graph: torch.fx.GraphModule, examples: Sequence[Any], options: Options) -> Run | None:
    """Return a plan of a graph without gradients, ready to be called; None where there is none.

    The reason is in the report: an operator that no package computes, sizes that may change, or
    PyTorch's own graph, which is faster.
    """
    route = Route(f"graph of {len(graph.graph.nodes)} nodes", "")
    try:
        plan = GraphPlan(graph, examples, options)
        route.reason = "nothing of PyTorch's runs inside"
        if options.keep_faster:
            route.comparison = plan.compared()
            if route.comparison.gain <= 1:
                raise _Unsuited("PyTorch's own is faster")
    except (ConvfindError, _Unsuited, ImportError) as error:
        route.reason = str(error).partition("\n")[0]
        engine().note(anonymous("torch.compile", options), route)
        return None
    route.where = "plan"
    engine().note(anonymous("torch.compile", options), route)
    return plan


class GraphPlan:
    """A plan that is made anew where a parameter changes."""

    def __init__(
        self, graph: torch.fx.GraphModule, examples: Sequence[Any], options: Options
    ) -> None:
        place = _place(examples)
        self._graph, self._options, self._place = graph, options, place
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._constant = [
            _is_constant(node, example)
            for node, example in zip(placeholders, examples, strict=True)
        ]
        self._examples = list(examples)
        self._plan, self._watched = self._made(examples), self._watch(examples)

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        """Compute the outputs."""
        if any(map(Watched.has_changed, self._watched, self._constants(tensors))):
            self._plan, self._watched = self._made(tensors), self._watch(tensors)
        inputs = {
            name: _array(one)
            for name, one, constant in zip(self._names, tensors, self._constant, strict=True)
            if not constant
        }
        with self._place.lock:
            release_cores()
            found = self._plan.run(inputs)
        return tuple(_tensor(array) for array in found.values())

    def compared(self) -> Any:
        """Time it in turns with the graph as PyTorch runs it."""
        samples = in_turns(
            self._place,
            lambda: self(*self._examples)[0],
            lambda: self._graph(*self._examples)[0],
        )
        return median_of(*samples)

    def _constants(self, tensors: Sequence[Any]) -> Iterable[torch.Tensor]:
        return compress(tensors, self._constant)

    def _watch(self, tensors: Sequence[Any]) -> list[Watched]:
        return [Watched.of(one) for one in self._constants(tensors)]

    def _made(self, tensors: Sequence[Any]) -> Any:
        from convfind_networks import Network

        try:
            program = torch.export.export(self._graph, tuple(tensors))
        except Exception as error:  # PyTorch's exporter raises whatever it meets
            raise _Unsuited(f"PyTorch does not export it: {error}") from error
        network = Network.from_torch(program, name="graph")
        if not hasattr(network, "compile"):
            raise _Unsuited("convfind-networks makes no plans; install a newer one")
        self._names = [one.name for one in network.inputs]
        if len(self._names) != len(tensors):
            raise _Unsuited("the exported graph has other inputs")
        outputs = program.graph_signature.output_specs
        if not outputs or any(one.kind.name != "USER_OUTPUT" for one in outputs):
            raise _Unsuited("the graph changes its inputs")
        constants: dict[str, Any] = {
            name: _array(one.contiguous()).copy()
            for name, one, constant in zip(self._names, tensors, self._constant, strict=True)
            if constant
        }
        policy = self._options.policy
        fields = {name: getattr(policy, name) for name in POLICY_FIELDS - {"enforce"}}
        with self._place.lock:
            plan = network.compile(self._place.handle, constants, policy.mode, **fields)
        if len(plan.outputs) != len(outputs):
            raise _Unsuited("outputs are the same, or are inputs")
        return plan


class Watched(NamedTuple):
    """What tells that a constant has changed: its version, its place, and one of its numbers."""

    version: int
    address: int
    number: int | None  # the bits of one element: changes through ``.data`` have no version
    element: Any  # that element's memory

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Self:
        """Watch a tensor as it is now."""
        if tensor.is_inference():
            raise _Unsuited("parameters that were made in inference mode count no changes")
        if not tensor.numel() or not tensor.is_contiguous():
            return cls(tensor._version, tensor.data_ptr(), None, None)
        memory = host_array(tensor)
        middle = memory.size // 2
        element = memory[middle : middle + 1].view(f"u{memory.itemsize}")
        return cls(tensor._version, tensor.data_ptr(), element.item(), element)

    def has_changed(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is no longer what was watched."""
        return (
            tensor._version != self.version
            or tensor.data_ptr() != self.address
            or (self.element is not None and self.element.item() != self.number)
        )


class _Unsuited(Exception):
    """Why a graph is none for a plan."""


def _place(examples: Sequence[Any]) -> Place:
    if not all(type(one) in (torch.Tensor, torch.nn.Parameter) for one in examples):
        raise _Unsuited("sizes may change, or inputs are no plain tensors")
    if torch.is_autocast_enabled("cpu"):
        raise _Unsuited("autocast is on")
    devices = {one.device for one in examples}
    if len(devices) != 1 or next(iter(devices)).type != "cpu":
        raise _Unsuited("plans are for tensors of the CPU")
    place = engine().place(examples[0])
    if isinstance(place, str):
        raise _Unsuited(place)
    return place


def _is_constant(node: torch.fx.Node, example: torch.Tensor) -> bool:
    """Return whether an input belongs to the model: a parameter or a buffer."""
    known = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return isinstance(example, torch.nn.Parameter) or known is not None


def _array(tensor: torch.Tensor) -> Any:
    plain = tensor.detach()
    if plain.dtype is torch.bfloat16:
        return plain.view(torch.int16).numpy().view(DataType.BFLOAT16.numpy)
    return plain.numpy()


def _tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
