"""`AtenNode`: a call of an ATen operator as the operators' functions read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from convfind_networks.from_torch.element_type import dtype_of
from convfind_networks.graph import GraphBuilder, Value
from convfind_networks.importing import Composer, NotSupported, axes_of, axis_of
from convfind_networks.ops import BinaryFunction


class AtenNode(Composer):
    """A call with its arguments by the names that the operator's schema gives them."""

    def __init__(
        self, label: str, arguments: Mapping[str, Any], result: Any, builder: GraphBuilder
    ) -> None:
        super().__init__(builder, label)
        self._arguments = arguments
        self._result = result

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument: a value, or what PyTorch has for it."""
        given = self._arguments.get(name, default)
        return default if given is None else given

    def value(self, name: str = "self") -> Value:
        """Return an argument that is a tensor."""
        given = self._arguments.get(name, self._arguments.get("input"))
        if not isinstance(given, Value):
            raise NotSupported(f"argument {name} is no tensor")
        return given

    def optional(self, name: str) -> Value | None:
        """Return an argument that may be absent."""
        given = self._arguments.get(name)
        return given if isinstance(given, Value) else None

    def numbers(self, name: str, rank: int, default: int) -> tuple[int, ...]:
        """Return one number for each axis; PyTorch lets one stand for all."""
        given = self.get(name, ())
        given = [given] if isinstance(given, int) else list(given)
        if len(given) <= 1:
            given = (given or [default]) * rank
        if len(given) != rank:
            raise NotSupported(f"{name} {given} in {rank} dimensions")
        return tuple(int(one) for one in given)

    def axis(self, name: str, rank: int, default: int = 0) -> int:
        """Return an axis that counts from the beginning."""
        return axis_of(int(self.get(name, default)), rank)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Return axes that count from the beginning; all where none are given."""
        given = self.get(name, ())
        given = [given] if isinstance(given, int) else list(given)
        return axes_of(given or range(rank), rank)

    def dtype(self) -> np.dtype[Any]:
        """Return the element type of the (first) result, as PyTorch's promotion has it."""
        first = self._result[0] if isinstance(self._result, (tuple, list)) else self._result
        return dtype_of(first.dtype)

    def typed(self, given: Any, dtype: np.dtype[Any]) -> Value:
        """Return a tensor or a number as a tensor of a type."""
        if isinstance(given, Value):
            return self.cast(given, dtype)
        return self.builder.constant(given, dtype, name=f"{self.label}.number")

    def arithmetic(self, function: BinaryFunction, a: Any, b: Any) -> Value:
        """Combine two operands in the type of the result."""
        dtype = self.dtype()
        return self.binary(function, self.typed(a, dtype), self.typed(b, dtype))


#: A function that adds an operator to a graph, and returns its results.
AtenOperator = Callable[[AtenNode], Value | tuple[Value, ...]]
#: Such functions by the operator's name.
AtenOperators = Mapping[str, AtenOperator]
