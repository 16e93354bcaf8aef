"""`BySizes`: a graph whose sizes may change, planned for each combination of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import torch
from torch.fx.node import map_arg

from convfind_torch.exported import is_constant
from convfind_torch.planning import NoPlan

Run = Callable[..., Any]
Planner = Callable[[torch.fx.GraphModule, Sequence[torch.Tensor]], Run]
Sizes = tuple[Any, ...]

#: Combinations of sizes that get a plan; each has memory of its own, weights included.
MOST_PLANS = 8


class BySizes:
    """Plans of one graph by the sizes of their inputs.

    Dynamo makes sizes symbolic once a second one comes. The first combinations of sizes get a plan;
    further ones, and such as have none or a slower one, are PyTorch's compiler's.
    """

    def __init__(self, graph: torch.fx.GraphModule, examples: Sequence[Any], plan: Planner) -> None:
        """Keep the graph, and what plans a graph for tensors as `planned` does."""
        self._graph, self._plan = graph, plan
        inputs = zip(_placeholders(graph), examples, strict=True)
        self._varying = [at for at, (node, one) in enumerate(inputs) if not is_constant(node, one)]
        self._lock = RLock()
        self._runs: dict[Sizes, Run] = {}
        self._own: Run = torch.compile(graph, dynamic=True)

    def plan(self, arguments: Sequence[Any]) -> None:
        """Plan for these sizes, and keep the plan. Raises `NoPlan`."""
        plan = self._plan(fixed_graph(self._graph, arguments), _tensors(arguments))
        self._runs[self._sizes(arguments)] = lambda *given: plan(*_tensors(given))

    def __call__(self, *arguments: Any) -> Any:
        """Compute the outputs for tensors and numbers in the graph's order."""
        return self._run_for(arguments)(*arguments)

    def _run_for(self, arguments: Sequence[Any]) -> Run:
        sizes = self._sizes(arguments)
        with self._lock:
            if sizes not in self._runs and len(self._runs) < MOST_PLANS:
                try:
                    self.plan(arguments)
                except NoPlan as refused:
                    self._runs[sizes] = refused.route.counted(self._own)
            return self._runs.get(sizes, self._own)

    def _sizes(self, arguments: Sequence[Any]) -> Sizes:
        given = [arguments[at] for at in self._varying]
        return tuple(
            (one.shape, one.stride()) if isinstance(one, torch.Tensor) else one for one in given
        )


def planned_by_sizes(graph: torch.fx.GraphModule, examples: Sequence[Any], plan: Planner) -> Run:
    """Return a graph's plan, or its plans by sizes where inputs are symbols.

    Args:
        graph: what Dynamo captured.
        examples: its inputs: tensors, and symbolic numbers for sizes that may change.
        plan: makes a plan of a graph of fixed sizes for its tensors.

    Raises:
        NoPlan: there is none for the examples.
    """
    numbers = [_hint(one) for one in examples]
    if all(isinstance(one, torch.Tensor) for one in numbers):
        return plan(graph, examples)
    runs = BySizes(graph, numbers, plan)
    runs.plan(numbers)
    return runs


def fixed_graph(graph: torch.fx.GraphModule, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """Return a copy in which inputs that are numbers have the values of these arguments."""
    copied = torch.fx.Graph()
    places: dict[torch.fx.Node, torch.fx.Node] = {}
    outputs = copied.graph_copy(graph.graph, places)
    copied.output(outputs)
    for before, value in zip(_placeholders(graph), arguments, strict=True):
        if isinstance(value, torch.Tensor):
            continue
        node = places[before]
        for user in list(node.users):
            user.args = map_arg(user.args, _filled(node, value))
            user.kwargs = map_arg(user.kwargs, _filled(node, value))
        copied.erase_node(node)
    return torch.fx.GraphModule(graph, copied)


def _placeholders(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _filled(node: torch.fx.Node, value: Any) -> Callable[[torch.fx.Node], Any]:
    """Return what puts a value in the place of a node."""
    return lambda one: value if one is node else one


def _hint(example: Any) -> Any:
    """Return the number that a symbol stands for now, without holding it to that."""
    return example.node.hint if isinstance(example, torch.SymInt) else example


def _tensors(arguments: Sequence[Any]) -> list[torch.Tensor]:
    return [one for one in arguments if isinstance(one, torch.Tensor)]
