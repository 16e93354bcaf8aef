"""`recognize_rotary`: positions that are embedded by turning halves of rows become an operation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    Binary,
    BinaryFunction,
    Concat,
    Op,
    Rotary,
    Slice,
    Split,
    Unary,
    UnaryFunction,
)
from convfind_networks.tensor_type import TensorType

_ADD, _MUL = Binary(BinaryFunction.ADD), Binary(BinaryFunction.MUL)


def recognize_rotary(graph: Graph) -> Graph:
    """Recognise ``x * cos + concat(-x[half:], x[:half]) * sin``, in any order of its arguments."""
    edit = GraphEditor(graph)
    reader = _Reader(edit)
    for node in edit:
        if node.op == _ADD:
            made = reader.rotary(node)
            if made:
                edit.replace([node], *made)
    return edit.graph()


@dataclass(frozen=True, slots=True)
class _Reader:
    edit: GraphEditor
    #: Sines whose first halves are negative, by the sines and how long rows are.
    signed: dict[tuple[str, int], str] = field(default_factory=dict)

    def rotary(self, node: Node) -> tuple[Node, ...]:
        """Return what replaces a sum; nothing where it is another one."""
        for one, other in (node.inputs, node.inputs[::-1]):
            for turned, sin in self._factors(other):
                x = self._turned(turned)
                for own, cos in self._factors(one):
                    if own == x and self._type(x) == self._type(node.output):
                        return self._made(node, x, cos, sin)
        return ()

    def _made(self, node: Node, x: str, cos: str, sin: str) -> tuple[Node, ...]:
        depth = self._type(x).shape[-1]
        key, before = (sin, depth), tuple[Node, ...]()
        if key not in self.signed:
            signs = np.where(np.arange(depth) < depth // 2, -1, 1).astype(self._type(x).dtype)
            data = self.edit.data(sin)
            if data is not None:
                name = self.edit.constant(data * signs, like=sin)
            else:
                kind = self._type(sin)
                shape = (*kind.shape[:-1], depth)
                name = self.edit.result(kind.with_shape(shape), like=sin)
                factor = self.edit.constant(signs, like=sin)
                before = (Node(_MUL, (sin, factor), (name,), name),)
            self.signed[key] = name
        made = Node(Rotary(), (x, cos, self.signed[key]), node.outputs, node.name)
        return (*before, made)

    def _factors(self, name: str) -> tuple[tuple[str, str], ...]:
        node = self._producer(name, _MUL)
        if node is None:
            return ()
        first, second = node.inputs
        return (first, second), (second, first)

    def _turned(self, name: str) -> str | None:
        """Return the value whose halves a value has, the second one first and negative."""
        joined = self.edit.producer(name)
        rank = self._type(name).rank
        if joined is None or joined.op != Concat(rank - 1) or len(joined.inputs) != 2:
            return None
        negative = self._producer(joined.inputs[0], Unary(UnaryFunction.NEG))
        second = self._half(negative.inputs[0]) if negative is not None else None
        first = self._half(joined.inputs[1])
        if first is None or second is None or (first[1], second[1]) != (0, 1):
            return None
        return first[0] if first[0] == second[0] else None

    def _half(self, name: str) -> tuple[str, int] | None:
        """Return the value of whose rows a value is a half, and which one."""
        node = self.edit.producer(name)
        if node is None:
            return None
        whole, half = self._type(node.inputs[0]).shape, self._type(name).shape[-1]
        if whole != (*self._type(name).shape[:-1], 2 * half):
            return None
        match node.op:
            case Split():
                return node.inputs[0], node.outputs.index(name)
            case Slice(begin=begin, step=step) if all(one == 1 for one in step):
                return (node.inputs[0], begin[-1] // half) if not begin[-1] % half else None
        return None

    def _producer(self, name: str, op: Op) -> Node | None:
        node = self.edit.producer(name)
        return node if node is not None and node.op == op else None

    def _type(self, name: str) -> TensorType:
        return self.edit.value(name).type
