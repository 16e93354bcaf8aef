"""`OnnxNode`: a node of an ONNX graph as the operators' functions read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from convfind_networks.from_onnx.sequence import Imported, ValueSequence
from convfind_networks.from_onnx.tensors import element_type
from convfind_networks.graph import GraphBuilder, Value
from convfind_networks.importing import Composer, NotSupported
from convfind_networks.tensor_type import Array

#: Imports a graph within a node, with values for its inputs, and returns its results.
Subgraph = Callable[[Any, Sequence[Imported]], Sequence[Imported]]


class OnnxNode(Composer):
    """A node with its inputs as values; what it adds to the graph bears its name."""

    def __init__(
        self,
        proto: Any,
        inputs: Sequence[Imported | None],
        opset: int,
        builder: GraphBuilder,
        subgraph: Subgraph,
    ) -> None:
        super().__init__(builder, next(filter(None, proto.output), "") or proto.name)
        self.proto = proto
        self.opset = opset
        self.inputs = inputs
        self._subgraph = subgraph
        self._attributes = {one.name: one for one in proto.attribute}

    # -- inputs and outputs -----------------------------------------------------------------------

    def optional(self, index: int) -> Value | None:
        """Return an input that may be absent."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(value, ValueSequence):
            raise NotSupported(f"input {index} is a sequence")
        return value

    def input(self, index: int) -> Value:
        """Return an input."""
        value = self.optional(index)
        if value is None:
            raise NotSupported(f"input {index} is missing")
        return value

    def values(self) -> list[Value]:
        """Return all inputs."""
        return [self.input(index) for index in range(len(self.inputs))]

    def imported(self, begin: int) -> list[Imported]:
        """Return the inputs from one on, each a tensor or a sequence."""
        found = [value for value in self.inputs[begin:] if value is not None]
        if len(found) < len(self.inputs[begin:]):
            raise NotSupported("an input is missing")
        return found

    def sequence(self, index: int) -> tuple[Value, ...]:
        """Return the tensors of an input that is a sequence."""
        value = self.inputs[index]
        if not isinstance(value, ValueSequence):
            raise NotSupported(f"input {index} is no sequence")
        return value.values

    def results_of(self, name: str, *inputs: Imported) -> Sequence[Imported]:
        """Import the graph in an attribute, with values for its inputs, and return its results."""
        return self._subgraph(self.attribute(name), inputs)

    def array(self, index: int, what: str) -> Array:
        """Return the contents of an input that has to be constant."""
        data = self.input(index).data
        if data is None:
            raise NotSupported(f"{what} is computed; it has to be constant")
        return data

    def number(self, index: int, what: str, default: float) -> float:
        """Return the number in a constant input."""
        return default if self.optional(index) is None else float(self.array(index, what).item())

    def has_output(self, index: int) -> bool:
        """Tell whether somebody may read a result."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    def only_outputs(self, count: int) -> None:
        """Refuse the node where it has more results."""
        if any(self.has_output(index) for index in range(count, len(self.proto.output))):
            raise NotSupported(f"only the first {count} of its results are computed")

    # -- attributes -------------------------------------------------------------------------------

    def attribute(self, name: str) -> Any:
        """Return an attribute, None where it is absent."""
        one = self._attributes.get(name)
        return None if one is None else onnx.helper.get_attribute_value(one)

    def integer(self, name: str, default: int) -> int:
        """Return a whole number."""
        value = self.attribute(name)
        return default if value is None else int(value)

    def real(self, name: str, default: float) -> float:
        """Return a number."""
        value = self.attribute(name)
        return default if value is None else float(value)

    def reals(self, name: str) -> tuple[float, ...]:
        """Return numbers; none where the attribute is absent."""
        return tuple(map(float, self.attribute(name) or ()))

    def word(self, name: str, default: str) -> str:
        """Return a word."""
        value = self.attribute(name)
        return default if value is None else bytes(value).decode()

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Return whole numbers."""
        value = self.attribute(name)
        return tuple(int(one) for one in (default if value is None else value))

    def integers_or_input(self, name: str, index: int) -> tuple[int, ...] | None:
        """Return whole numbers that are an attribute in older and an input in newer opsets."""
        if self.attribute(name) is not None:
            return self.integers(name)
        if self.optional(index) is None:
            return None
        return tuple(int(one) for one in self.array(index, name).reshape(-1))

    def dtype(self, name: str, default: np.dtype[Any] | None = None) -> np.dtype[Any]:
        """Return an element type."""
        number = self.integer(name, 0)
        if not number and default is not None:
            return default
        found = element_type(number)
        if found == np.dtype(object):
            raise NotSupported(f"{name} {number} is no type of numbers")
        return found


#: A function that adds an operator to a graph, and returns its results.
OnnxOperator = Callable[[OnnxNode], Imported | tuple[Imported, ...]]
#: Such functions by the operator's name.
OnnxOperators = Mapping[str, OnnxOperator]
