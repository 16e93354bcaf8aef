"""`Call`: the problem that computes a node, and which value each of its operands is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convfind.problem.contract import Problem
from convfind.types import DataType
from convfind_networks.errors import GraphError
from convfind_networks.graph import Node, TensorType
from convfind_networks.layouts import LaidOut

if TYPE_CHECKING:
    from convfind.plugins.registry import Registry


@dataclass(frozen=True, eq=False)
class Call:
    """A node as a plain problem: ``operands`` says which value each operand of the problem is.

    A value's memory is the operand's memory, whatever shape the problem gives it.
    """

    node: Node
    problem: Problem
    operands: Mapping[str, str]
    rows: frozenset[str] = frozenset()  # operands whose values are rows, with channels last


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The surroundings of a lowering: types and layouts of values, problem types of packages."""

    laid_out: LaidOut
    registry: Registry

    def type(self, name: str) -> TensorType:
        """Return the type of a value."""
        return self.laid_out.graph.values[name].type

    def is_last(self, name: str) -> bool:
        """Tell whether a value lies channels-last."""
        return name in self.laid_out.channels_last

    def is_constant(self, name: str) -> bool:
        """Tell whether a value is constant."""
        return self.laid_out.graph.values[name].is_constant

    def problem_type(self, kind: str) -> Callable[..., Any]:
        """Return what makes problems of a kind.

        Raises:
            GraphError: no installed package brings them.
        """
        found = self.registry.problem_types.get(kind)
        if found is None:
            raise GraphError(f"no installed package brings {kind} problems; see convfind-operators")
        return found

    def dtype(self, name: str) -> DataType:
        """Return the type of a value's elements.

        Raises:
            GraphError: kernels do not have it.
        """
        found = self.type(name).dtype.name
        try:
            return DataType(found)
        except ValueError:
            raise GraphError(f"{found} tensors do not run on a device") from None


#: From a node to its call. Raises `GraphError` or `ProblemError` where there is none.
Lowering = Callable[[Surroundings, Node], Call]
