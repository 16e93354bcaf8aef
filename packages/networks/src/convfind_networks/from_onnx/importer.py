"""The walk over an ONNX graph, which makes one of ours and collects what is not supported."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from convfind_networks.errors import (
    ModelFormatError,
    Unsupported,
    UnsupportedError,
)
from convfind_networks.from_onnx.functions import (
    DEEPEST,
    attributes_of,
    function_of,
    is_function,
    with_attributes,
)
from convfind_networks.from_onnx.node import OnnxNode
from convfind_networks.from_onnx.operators import CONTRIBUTED, OPERATORS, refusal
from convfind_networks.from_onnx.sequence import Imported
from convfind_networks.from_onnx.tensors import read_tensor
from convfind_networks.graph import Graph, GraphBuilder, Value
from convfind_networks.importing import AlreadyListed, NotSupported, plain, reading
from convfind_networks.model import Bound
from convfind_networks.ops.op import as_tuple
from convfind_networks.tensor_type import TensorType

if TYPE_CHECKING:
    from convfind_networks.from_onnx.reading import OnnxModel

#: The operators of each domain.
_DOMAINS = {"": OPERATORS, "ai.onnx": OPERATORS, "com.microsoft": CONTRIBUTED}
#: Nodes of the largest model, those of its functions counted at every call.
MOST_NODES = 50_000
#: Values by name; None stands for what an unsupported operator would have computed.
_Scope = MutableMapping[str, Imported | None]


class Importer:
    """Makes a graph of an ONNX model. Nodes that depend on unsupported ones are left out."""

    def __init__(self, model: OnnxModel) -> None:
        self._model = model
        self._builder = GraphBuilder()
        self._unsupported: list[Unsupported] = []
        self._visited = 0
        self._opsets = {one.domain: one.version for one in model.proto.opset_import}
        self._functions = {(one.domain, one.name): one for one in model.proto.functions}

    def graph(self, bound: Bound) -> Graph:
        """Return the graph for inputs of these types.

        Raises:
            UnsupportedError: with every operator that is not supported.
            ModelFormatError: the model is malformed.
        """
        graph = self._model.proto.graph
        scope: _Scope = {}
        with reading(self._model.name):
            for name, one in bound.items():
                scope[name] = self._input(name, one)
            self._weights(graph, scope)
            self._walk(_needed(graph.node, self._model.outputs), scope, self._opsets, 0)
            outputs = {name: self._value(scope, name) for name in self._model.outputs}
            for name, value in outputs.items():
                if value is not None and not isinstance(value, Value):
                    self._unsupported.append(Unsupported("output", name, "it is a sequence"))
            if self._unsupported:
                raise UnsupportedError(self._model.name, self._unsupported)
            return self._builder.graph({n: v for n, v in outputs.items() if isinstance(v, Value)})

    def _input(self, name: str, one: Any) -> Value | None:
        if not isinstance(one, TensorType):
            return self._builder.constant(one, name=name)
        if one.dtype == np.dtype(object):
            self._unsupported.append(Unsupported("input", name, "it is no tensor of numbers"))
            return None
        return self._builder.input(name, one)

    def _weights(self, graph: Any, scope: _Scope) -> None:
        for tensor in graph.initializer:
            data = read_tensor(tensor, self._model.folder)
            if data.dtype == np.dtype(object):
                self._unsupported.append(Unsupported("weights", tensor.name, "they are texts"))
                scope[tensor.name] = None
            else:
                scope[tensor.name] = self._builder.constant(data, name=tensor.name)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self._unsupported.append(Unsupported("weights", name, "they are sparse"))
            scope[name] = None

    def _walk(
        self, nodes: Sequence[Any], scope: _Scope, opsets: Mapping[str, int], depth: int
    ) -> None:
        for proto in nodes:
            self._visited += 1
            if self._visited > MOST_NODES:
                raise ModelFormatError(f"{self._model.name}: more than {MOST_NODES:,} nodes")
            results = self._results(proto, scope, opsets, depth)
            for at, name in enumerate(proto.output):
                if name:
                    scope[name] = results[at] if at < len(results) else None

    def _results(
        self, proto: Any, scope: _Scope, opsets: Mapping[str, int], depth: int
    ) -> Sequence[Imported | None]:
        """Return what a node computes; nothing where it, or what it reads, is not supported."""
        inputs = [self._value(scope, name) if name else None for name in proto.input]
        known = sum(map(bool, proto.input)) == sum(value is not None for value in inputs)
        where = f"{self._model.name}: {_label(proto)} ({plain(proto.op_type)}) is malformed"
        try:
            with reading(where):
                operator = _DOMAINS.get(proto.domain, {}).get(proto.op_type)
                if operator is None and not is_function(proto, opsets, self._functions):
                    raise NotSupported(refusal(proto.domain, proto.op_type))
                if not known:
                    return ()
                if operator is None:
                    return self._expanded(proto, inputs, opsets, depth)
                opset = opsets.get("", opsets.get("ai.onnx", 1))
                inner = partial(self._inner, scope, opsets, depth)
                return as_tuple(operator(OnnxNode(proto, inputs, opset, self._builder, inner)))
        except AlreadyListed:
            pass
        except NotSupported as exc:
            self._refuse(proto, str(exc))
        return ()

    def _refuse(self, proto: Any, reason: str) -> None:
        name = f"{proto.domain}.{proto.op_type}" if proto.domain else proto.op_type
        self._unsupported.append(Unsupported(plain(name), _label(proto), reason))

    def _expanded(
        self,
        call: Any,
        inputs: Sequence[Imported | None],
        opsets: Mapping[str, int],
        depth: int,
    ) -> Sequence[Imported | None]:
        """Import the body of the function that an operator stands for."""
        function = function_of(call, inputs, opsets, self._functions)
        if depth == DEEPEST:
            raise NotSupported(f"functions within functions, {DEEPEST} deep")
        padded = [*inputs, *[None] * (len(function.input) - len(inputs))]
        absent = {name for name, value in zip(function.input, padded, strict=True) if value is None}
        scope: _Scope = {
            name: value
            for name, value in zip(function.input, padded, strict=True)
            if value is not None
        }
        body, attributes = [], attributes_of(call, function, opsets)
        for node in function.node:
            ready = with_attributes(node, attributes)
            if absent.intersection(ready.input):
                ready = _without(ready, absent)
            body.append(ready)
        versions = {one.domain: one.version for one in function.opset_import}
        self._walk(body, scope, {**opsets, **versions}, depth + 1)
        return [scope.get(name) for name in function.output]

    def _inner(
        self,
        scope: _Scope,
        opsets: Mapping[str, int],
        depth: int,
        graph: Any,
        given: Sequence[Imported],
    ) -> Sequence[Imported]:
        """Import a graph within a node, which sees the names around it."""
        if depth == DEEPEST:
            raise NotSupported(f"graphs within graphs, {DEEPEST} deep")
        names = [one.name for one in graph.input]
        inner: _Scope = ChainMap(dict(zip(names, given, strict=True)), scope)
        self._weights(graph, inner)
        self._walk(graph.node, inner, opsets, depth + 1)
        results = [self._value(inner, one.name) for one in graph.output]
        known = [one for one in results if one is not None]
        if len(known) < len(results):
            raise AlreadyListed
        return known

    def _value(self, scope: _Scope, name: str) -> Imported | None:
        if name not in scope:
            raise ModelFormatError(f"{self._model.name}: {plain(name)} is not computed")
        return scope[name]


def _needed(nodes: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
    """Return the nodes that some outputs depend on, in order."""
    wanted, found = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            found.append(node)
            wanted.update(_names_read(node))
    return found[::-1]


def _names_read(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, and those that graphs within it may read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (one.name for one in graph.output)
            for inner in graph.node:
                yield from _names_read(inner)


def _without(node: Any, absent: set[str]) -> Any:
    """Return a node of a function without the inputs that the call does not give."""
    copy = type(node)()
    copy.CopyFrom(node)
    for at, name in enumerate(copy.input):
        if name in absent:
            copy.input[at] = ""
    return copy


def _label(proto: Any) -> str:
    return plain(proto.name or next(filter(None, proto.output), "?"))
