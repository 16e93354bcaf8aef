"""The walk over an exported program, which makes a graph and collects what is not supported."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from convfind_networks.errors import Unsupported, UnsupportedError
from convfind_networks.from_torch.node import AtenNode
from convfind_networks.from_torch.operators import OPERATORS
from convfind_networks.graph import Graph, GraphBuilder, Value
from convfind_networks.importing import NotSupported, reading
from convfind_networks.model import Bound
from convfind_networks.ops.op import as_tuple
from convfind_networks.tensor_type import TensorType

if TYPE_CHECKING:
    from convfind_networks.from_torch.reading import ExportedModel

#: Calls that only check what the export assumed.
_CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size")


class Importer:
    """Makes a graph of an exported program."""

    def __init__(self, model: ExportedModel) -> None:
        self._model = model
        self._builder = GraphBuilder()
        self._unsupported: list[Unsupported] = []
        #: By node: a value, several, or a number; missing where it is not known.
        self._known: dict[Any, Any] = {}

    def graph(self, bound: Bound) -> Graph:
        """Return the graph for inputs of these types.

        Raises:
            UnsupportedError: with every operator that is not supported.
            ModelFormatError: a shape does not go with the program.
        """
        for node in self._model.program.graph.nodes:
            try:
                with reading(f"{self._model.name}: {node.name} ({node.target}) is not understood"):
                    if node.op == "placeholder":
                        self._known[node] = self._placeholder(node, bound)
                    elif node.op == "call_function":
                        self._known[node] = self._call(node)
            except NotSupported as exc:
                if str(exc):
                    self._unsupported.append(Unsupported(str(node.target), node.name, str(exc)))
        self._unsupported += self._changes()
        if self._unsupported:
            raise UnsupportedError(self._model.name, self._unsupported)
        return self._builder.graph(self._outputs())

    def _changes(self) -> list[Unsupported]:
        """Return the inputs and buffers that the program changes, which no plan does."""
        return [
            Unsupported("output", spec.target or spec.arg.name, "it changes an input or a buffer")
            for spec in self._model.program.graph_signature.output_specs
            if "MUTATION" in spec.kind.name
        ]

    def _placeholder(self, node: Any, bound: Bound) -> Value | None:
        if node.name in self._model.weights:
            return self._builder.constant(self._model.weights[node.name], name=node.name)
        one = bound.get(node.name)
        if one is None:
            return None  # fixed by the export, and read by nothing
        if not isinstance(one, TensorType):
            return self._builder.constant(one, name=node.name)
        if one.dtype == np.dtype(object):
            raise NotSupported("it is no tensor of numbers")
        return self._builder.input(node.name, one)

    def _call(self, node: Any) -> Any:
        args = self._resolved(node.args)
        if node.target is operator.getitem:
            results, at = args
            if at >= len(results):
                raise NotSupported("only the first results are computed")
            return results[at]
        name = str(node.target)
        if name.startswith("aten.sym_size"):
            return args[0].shape[args[1]]
        if name.split(".")[0] != "aten":
            if callable(node.target) and not any(isinstance(one, Value) for one in args):
                return node.target(*args)  # arithmetic on sizes
            raise NotSupported("no such operator here")
        word = name.split(".")[1]
        if word in _CHECKS:
            return None
        function = OPERATORS.get(word)
        if function is None:
            raise NotSupported("no such operator here")
        arguments = {
            one.name: given for one, given in zip(node.target._schema.arguments, args, strict=False)
        }
        arguments.update({key: self._resolved(given) for key, given in node.kwargs.items()})
        example = node.meta.get("val")
        results = as_tuple(function(AtenNode(node.name, arguments, example, self._builder)))
        # Operators with several results in PyTorch are read by number, whatever is computed here.
        return results if isinstance(example, (tuple, list)) else results[0]

    def _resolved(self, argument: Any) -> Any:
        """Return an argument with nodes replaced by what they compute."""
        if isinstance(argument, (list, tuple)):
            return [self._resolved(one) for one in argument]
        if hasattr(argument, "op") and hasattr(argument, "graph"):  # a node of the program
            if argument not in self._known:
                raise NotSupported  # as something before it: that is listed
            return self._known[argument]
        return argument

    def _outputs(self) -> dict[str, Value]:
        """Return the results, by the names that the program gives them."""
        (output,) = (node for node in self._model.program.graph.nodes if node.op == "output")
        specs = self._model.program.graph_signature.output_specs
        found = {}
        for spec, result in zip(specs, self._resolved(output.args[0]), strict=True):
            if spec.kind.name == "USER_OUTPUT" and isinstance(result, Value):
                found[spec.arg.name] = result
        return found
