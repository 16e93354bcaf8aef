"""`Graph`: nodes in an order in which they can run, and the values between them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from convfind.cached import cached_property
from convfind_networks.errors import GraphError
from convfind_networks.graph.node import Node
from convfind_networks.graph.value import Value
from convfind_networks.tensor_type import TensorType


@dataclass(frozen=True, eq=False)
class Graph:
    """A network for given input shapes: frozen, in single assignment, in topological order.

    ``outputs`` maps the public name of each result to the name of its value, so that passes may
    rename values freely; inputs keep their public names.
    """

    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", MappingProxyType(dict(self.outputs)))
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        known = {name for name, value in self.values.items() if value.is_constant}
        known.update(self.inputs)
        for node in self.nodes:
            for name in node.inputs:
                if name not in known:
                    raise GraphError(f"{node}: {name} is not computed before")
            for name in node.outputs:
                if name in known:
                    raise GraphError(f"{node}: {name} is computed twice")
                known.add(name)
        for name in self.outputs.values():
            if name not in known:
                raise GraphError(f"output {name} is not computed")

    def __reduce__(self) -> tuple[type[Graph], tuple[object, ...]]:
        return Graph, (self.inputs, dict(self.outputs), self.nodes, dict(self.values))

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that computes each value; inputs and constants have none."""
        return {name: node for node in self.nodes for name in node.outputs}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, in order; once each."""
        readers: defaultdict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers[name].append(node)
        return {name: tuple(readers[name]) for name in self.values}

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """How often each value is read, as an output of the graph too."""
        counts = Counter(name for node in self.nodes for name in node.inputs)
        counts.update(self.outputs.values())
        return counts

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulate operations of convolutions and matrix products."""
        return sum(node.op.macs(*self.types(node.inputs)) for node in self.nodes)

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of the constants that nodes read."""
        return sum(
            self.values[name].type.nbytes
            for name in {name for node in self.nodes for name in node.inputs}
            if self.values[name].is_constant
        )

    def types(self, names: Sequence[str]) -> tuple[TensorType, ...]:
        """Return the types of named values."""
        return tuple(self.values[name].type for name in names)

    def count(self, kind: str) -> int:
        """Count the nodes whose operation has this name, as in ``graph.count("Convolution")``."""
        return sum(node.op.kind == kind for node in self.nodes)

    def __str__(self) -> str:
        lines = [f"{self.values[name]} (input)" for name in self.inputs]
        lines += [f"{node}  # {self.values[node.output].type}" for node in self.nodes]
        lines += [f"{public} -> {name} (output)" for public, name in self.outputs.items()]
        return "\n".join(lines)
