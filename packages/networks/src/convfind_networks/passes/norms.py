"""`recognize_norms`: layer and RMS norms that models spell out become operations again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    Binary,
    BinaryFunction,
    Cast,
    LayerNorm,
    Reduce,
    ReduceFunction,
    RMSNorm,
    Unary,
    UnaryFunction,
)
from convfind_networks.tensor_type import TensorType

#: Axes of an image, at least.
_IMAGE = 4


def recognize_norms(graph: Graph) -> Graph:
    """Recognise ``x / sqrt(mean(x ** 2) + epsilon)``, and the same of ``x - mean(x)``.

    What follows goes into the norm: another type, factors and addends for each channel. Those that
    are computed in float32, between types of 16 bits, are norms of such types, which compute so.
    """
    edit = GraphEditor(graph)
    for node in edit:
        if len(node.outputs) != 1 or not edit.value(node.output).type.is_float:
            continue
        reader = _Reader(edit)
        made = reader.norm(node) or reader.narrowed(node) or reader.followed(node)
        if made is not None:
            edit.replace([node], made)
    return edit.graph()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the formulas that values are computed by."""

    edit: GraphEditor

    def norm(self, node: Node) -> Node | None:
        """Return a norm in place of the quotient that it ends with, scaled by ones."""
        for x, divisor in self._quotients(node):
            added = self._producer(divisor, Binary(BinaryFunction.ADD))
            for square, number in (added.inputs, added.inputs[::-1]) if added else ():
                epsilon, mean = self._number(number), self.edit.producer(square)
                if epsilon is None or mean is None or not self._is_square(mean.inputs[0], x):
                    continue
                axis = self._axis(mean)
                if axis is not None and self._type(x) == self._type(node.output):
                    return self._made(node, x, axis, epsilon, mean.op)
        return None

    def _made(self, node: Node, x: str, axis: int, epsilon: float, mean: object) -> Node:
        kind, centred = self._type(x), self._producer(x, Binary(BinaryFunction.SUB))
        ones = self.edit.constant(np.ones(kind.shape[axis:], kind.dtype), like=node.output)
        before = None if centred is None else self.edit.producer(centred.inputs[1])
        if centred is not None and before is not None:
            whole = centred.inputs[0]
            if before.op == mean and before.inputs == (whole,):
                return Node(LayerNorm(axis, epsilon), (whole, ones), node.outputs, node.name)
        return Node(RMSNorm(axis, epsilon), (x, ones), node.outputs, node.name)

    def narrowed(self, node: Node) -> Node | None:
        """Return a norm of the narrow type whose elements a norm computes in a wider one."""
        norm = self._norm_before(node.inputs[0]) if isinstance(node.op, Cast) else None
        if norm is None:
            return None
        wider = self.edit.producer(norm.inputs[0])
        narrow = self._type(node.output)
        if (
            wider is None
            or not isinstance(wider.op, Cast)
            or self._type(wider.inputs[0]) != narrow
            or narrow.dtype.itemsize != 2
            or self._type(norm.output).dtype != np.float32
        ):
            return None
        parameters = list[str]()
        for name in norm.inputs[1:]:
            data = self.edit.data(name)
            if data is None:
                return None
            rounded = data.astype(narrow.dtype)
            if not np.array_equal(rounded.astype(np.float32), data):
                return None  # it would be rounded once more
            parameters.append(self.edit.constant(rounded, like=name))
        return replace(norm, inputs=(wider.inputs[0], *parameters), outputs=node.outputs)

    def followed(self, node: Node) -> Node | None:
        """Return a norm that takes in a factor, or what is added."""
        for before, number in (node.inputs, node.inputs[::-1]) if len(node.inputs) == 2 else ():
            norm, data = self._norm_before(before), self.edit.data(number)
            if norm is None or data is None:
                continue
            assert isinstance(norm.op, (LayerNorm, RMSNorm))
            x, scale, *bias = norm.inputs
            factors, kind = self.edit.data(scale), self._type(x)
            trailing = kind.shape[norm.op.axis :]
            if factors is None or bias or data.dtype != kind.dtype:
                continue
            if not _repeats(data.shape, trailing):
                continue
            row = data.reshape(data.shape[-len(trailing) :])
            made = self.edit.constant(np.broadcast_to(row, trailing).copy(), like=number)
            if node.op == Binary(BinaryFunction.MUL) and np.all(factors == 1):
                return replace(norm, inputs=(x, made), outputs=node.outputs)
            if node.op == Binary(BinaryFunction.ADD) and isinstance(norm.op, LayerNorm):
                return replace(norm, inputs=(x, scale, made), outputs=node.outputs)
        return None

    # -- parts ------------------------------------------------------------------------------------

    def _quotients(self, node: Node) -> list[tuple[str, str]]:
        """Return what a node may divide, and the values of whose roots."""
        pairs = list[tuple[str, str]]()
        if node.op == Binary(BinaryFunction.DIV):
            pairs = [(node.inputs[0], node.inputs[1])]
        elif node.op == Binary(BinaryFunction.MUL):
            for x, factor in (node.inputs, node.inputs[::-1]):
                inverse = self._producer(factor, Unary(UnaryFunction.RECIPROCAL))
                if inverse is not None:
                    pairs.append((x, inverse.inputs[0]))
        roots = ((x, self._producer(root, Unary(UnaryFunction.SQRT))) for x, root in pairs)
        return [(x, root.inputs[0]) for x, root in roots if root is not None]

    def _is_square(self, name: str, x: str) -> bool:
        node = self.edit.producer(name)
        if node is None:
            return False
        if node.op == Binary(BinaryFunction.MUL):
            return node.inputs == (x, x)
        is_power = node.op == Binary(BinaryFunction.POW) and node.inputs[0] == x
        return is_power and self._number(node.inputs[1]) == 2

    def _axis(self, mean: Node) -> int | None:
        """Return the axis from which on a node takes the mean, of all elements of a row.

        Those over positions of images stay formulas, which are computed in any layout.
        """
        rank = self._type(mean.inputs[0]).rank
        match mean.op:
            case Reduce(function=ReduceFunction.MEAN, axes=axes, keepdims=True) if axes:
                axis = min(axes)
                are_rows = axis == rank - 1 or rank < _IMAGE
                return axis if are_rows and sorted(axes) == list(range(axis, rank)) else None
        return None

    def _norm_before(self, name: str) -> Node | None:
        """Return the norm whose result a value is, if nobody else reads it."""
        node = self.edit.producer(name)
        is_norm = node is not None and isinstance(node.op, (LayerNorm, RMSNorm))
        return node if is_norm and self.edit.is_read_once(name) else None

    def _producer(self, name: str, op: object) -> Node | None:
        node = self.edit.producer(name)
        return node if node is not None and node.op == op else None

    def _number(self, name: str) -> float | None:
        data = self.edit.data(name)
        return float(data.reshape(())) if data is not None and data.size == 1 else None

    def _type(self, name: str) -> TensorType:
        return self.edit.value(name).type


def _repeats(shape: tuple[int, ...], trailing: tuple[int, ...]) -> bool:
    """Return whether an array is repeated to rows of a shape, and to nothing larger."""
    if any(size != 1 for size in shape[: -len(trailing)]):
        return False
    try:
        return np.broadcast_shapes(shape[-len(trailing) :], trailing) == trailing
    except ValueError:
        return False
