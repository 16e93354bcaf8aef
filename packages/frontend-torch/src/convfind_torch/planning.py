"""A whole graph of Dynamo's as one plan of convfind-networks, with nothing of PyTorch's inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple, Self

import torch

from convfind.errors import ConvfindError
from convfind.policy import POLICY_FIELDS, FindMode
from convfind.runtime.session import Progress, silent
from convfind.types import DataType
from convfind_torch.background import Improving
from convfind_torch.comparison import in_turns, median_of
from convfind_torch.engine import engine
from convfind_torch.layer import anonymous
from convfind_torch.openmp import release_cores
from convfind_torch.options import Options
from convfind_torch.places import Place, host_array, open_place
from convfind_torch.route import Route

Run = Callable[..., tuple[Any, ...]]


def planned(
    graph: torch.fx.GraphModule,
    examples: Sequence[Any],
    options: Options,
    *,
    background: bool = False,
) -> Run | None:
    """Return a plan of a graph without gradients, ready to be called; None where there is none.

    The reason is in the report: an operator that no package computes, sizes that may change, or
    PyTorch's own graph, which is faster.

    Args:
        graph: what Dynamo captured.
        examples: its inputs, parameters among them.
        options: how to find, and whether PyTorch's own graph stays where it is faster.
        background: serve by estimates at once, and take what finds and comparison say when they
            are through, between two calls.
    """
    route = Route(_description(graph, examples), "", where="plan")
    behind = background and options.policy.mode is not FindMode.FAST
    try:
        place, exported = _place(examples), Exported.of(graph, examples)
        if behind:
            quick = replace(options, policy=options.policy.with_changes(mode="FAST"))
            first = GraphPlan(exported, examples, quick, place)
            route.reason = "estimated; finds are under way"
            run: Run = Improving(first, _better(route, graph, exported, examples, options))
        else:
            run = _best(route, graph, GraphPlan(exported, examples, options, place), examples)
    except (ConvfindError, Unsuited, ImportError) as error:
        route.where, route.reason = "", str(error).partition("\n")[0]
        engine().note(anonymous("torch.compile", options), route)
        return None
    engine().note(anonymous("torch.compile", options), route)
    return run


def _best(
    route: Route, graph: torch.fx.GraphModule, plan: GraphPlan, examples: Sequence[Any]
) -> GraphPlan:
    """Return a plan. Raises `Unsuited` where PyTorch's own graph was measured to be faster."""
    if plan.options.keep_faster:
        samples = in_turns(plan.place, lambda: plan(*examples)[0], lambda: graph(*examples)[0])
        route.comparison = median_of(*samples)
        if route.comparison.gain <= 1:
            raise Unsuited("PyTorch's own is faster")
    route.reason = "nothing of PyTorch's runs inside"
    return plan


def _better(
    route: Route,
    graph: torch.fx.GraphModule,
    exported: Exported,
    examples: Sequence[Any],
    options: Options,
) -> Callable[[Progress], Run]:
    """Return what finds a plan on a handle of its own, since the engine's serves meanwhile."""

    def better(on_progress: Progress) -> Run:
        place = open_place(examples[0].device)
        try:
            if isinstance(place, str):
                raise Unsuited(place)
            found = GraphPlan(exported, examples, options, place, on_progress)
            return _best(route, graph, found, examples)
        except Unsuited as error:
            route.where, route.reason = "", str(error)
            own: Run = graph
            return own

    return better


class Exported(NamedTuple):
    """A graph as convfind-networks reads it; parameters and buffers are inputs of it."""

    network: Any
    names: tuple[str, ...]  # of the inputs, in Dynamo's order
    constant: tuple[bool, ...]  # which of them belong to the model
    outputs: int

    @classmethod
    def of(cls, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Self:
        """Export a graph. Raises `Unsuited`, `ConvfindError`, or `ImportError` without networks."""
        from convfind_networks import Network

        try:
            with torch._guards.tracing(None):  # Dynamo's symbols are none of a fixed graph's
                program = torch.export.export(graph, tuple(examples))
        except Exception as error:  # PyTorch's exporter raises whatever it meets
            raise Unsuited(f"PyTorch does not export it: {error}") from error
        network = Network.from_torch(program, name="graph")
        if not hasattr(network, "compile"):
            raise Unsuited("convfind-networks makes no plans; install a newer one")
        names = tuple(one.name for one in network.inputs)
        if len(names) != len(examples):
            raise Unsuited("the exported graph has other inputs")
        outputs = program.graph_signature.output_specs
        if not outputs or any(one.kind.name != "USER_OUTPUT" for one in outputs):
            raise Unsuited("the graph changes its inputs")
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        pairs = zip(placeholders, examples, strict=True)
        return cls(network, names, tuple(_is_constant(*pair) for pair in pairs), len(outputs))


class GraphPlan:
    """A plan that is made anew where a parameter changes."""

    def __init__(
        self,
        exported: Exported,
        tensors: Sequence[Any],
        options: Options,
        place: Place,
        on_progress: Progress = silent,
    ) -> None:
        """Make the plan for tensors of these sizes. Raises `Unsuited` and `ConvfindError`."""
        self.options, self.place = options, place
        self._exported = exported
        self._make(tensors, on_progress)

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        """Compute the outputs."""
        if any(map(Watched.has_changed, self._watched, self._constants(tensors))):
            self._make(tensors)
        names, constants = self._exported.names, self._exported.constant
        inputs = {
            name: _array(one)
            for name, one, constant in zip(names, tensors, constants, strict=True)
            if not constant
        }
        with self.place.lock:
            release_cores()
            found = self._plan.run(inputs)
        return tuple(_tensor(array) for array in found.values())

    def _constants(self, tensors: Sequence[Any]) -> Iterable[torch.Tensor]:
        return compress(tensors, self._exported.constant)

    def _make(self, tensors: Sequence[Any], on_progress: Progress = silent) -> None:
        # Watched before they are read: what changes while finds run makes the plan anew.
        watched = [Watched.of(one) for one in self._constants(tensors)]
        self._plan, self._watched = self._made(tensors, on_progress), watched

    def _made(self, tensors: Sequence[Any], on_progress: Progress = silent) -> Any:
        exported, policy = self._exported, self.options.policy
        constants: dict[str, Any] = {
            name: _array(one.contiguous()).copy()
            for name, one in compress(zip(exported.names, tensors, strict=True), exported.constant)
        }
        fields = {name: getattr(policy, name) for name in POLICY_FIELDS - {"enforce"}}
        with self.place.lock:
            plan = exported.network.compile(
                self.place.handle, constants, policy.mode, on_progress=on_progress, **fields
            )
        if len(plan.outputs) != exported.outputs:
            raise Unsuited("outputs are the same, or are inputs")
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
            raise Unsuited("parameters that were made in inference mode count no changes")
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


class Unsuited(Exception):
    """Why a graph is none for a plan."""


def _place(examples: Sequence[Any]) -> Place:
    if not all(type(one) in (torch.Tensor, torch.nn.Parameter) for one in examples):
        raise Unsuited("sizes may change, or inputs are no plain tensors")
    if torch.is_autocast_enabled("cpu"):
        raise Unsuited("autocast is on")
    devices = {one.device for one in examples}
    if len(devices) != 1 or next(iter(devices)).type != "cpu":
        raise Unsuited("plans are for tensors of the CPU")
    place = engine().place(examples[0])
    if isinstance(place, str):
        raise Unsuited(place)
    return place


def _description(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> str:
    """Return what tells a graph from others: its nodes, and the sizes of what it is called with."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    sizes = [
        "x".join(map(str, one.shape))
        for node, one in zip(placeholders, examples, strict=True)
        if isinstance(one, torch.Tensor) and not _is_constant(node, one)
    ]
    return f"graph of {len(graph.graph.nodes)} nodes for {', '.join(sizes)}"


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
