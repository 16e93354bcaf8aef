"""`scores_before`: what is between the two products of an attention, however models spell it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convfind_networks.graph import GraphEditor, Node
from convfind_networks.ops import (
    Activate,
    ActivationKind,
    Binary,
    BinaryFunction,
    Cast,
    Expand,
    MatMul,
    Op,
    Reduce,
    ReduceFunction,
    Reshape,
    Softmax,
    Where,
)

#: Scores below it count for nothing, in types of 16 bits and others, beside such as are seen.
LEAST = -6e4
#: The most that float16 numbers up to 1, and a little beyond, are multiplied by, and the least.
_MOST, _LEAST_FACTOR = 6e4, 1e-3


@dataclass(frozen=True, slots=True)
class Mask:
    """Numbers that are added to scores, or which are seen, while others become ``least``.

    It is repeated to ``scores``, their shape where it is laid on.
    """

    name: str
    scores: tuple[int, ...]
    least: float = -math.inf


@dataclass(frozen=True, slots=True)
class Scores:
    """The nodes of an attention from the first product to the second, and what masks its scores.

    Before they are masked, scores are multiplied by ``factors``, which have one for all keys.
    """

    nodes: tuple[Node, ...]
    masks: tuple[Mask, ...]
    zeros: bool
    factors: tuple[str, ...] = ()


def _is_floor(op: Op) -> bool:
    """Return whether nothing becomes smaller by an operation."""
    if not isinstance(op, Activate) or op.activation.kind is not ActivationKind.CLIP:
        return False
    return op.activation.numbers[1] == math.inf


def scores_before(last: Node, edit: GraphEditor) -> Scores | None:
    """Return what leads to a product, where that is the second one of an attention."""
    return _Reader(edit).scores(last)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads what is between the two products, from the second one back."""

    edit: GraphEditor

    def scores(self, last: Node) -> Scores | None:
        """Return what leads to the second product, where that is an attention."""
        if last.op != MatMul():
            return None
        nodes = [last]
        node = self._before(last.inputs[0], nodes)
        blind = node if node is not None and isinstance(node.op, Where) else None
        if blind is not None:
            node = self._before(self._left_by(blind), nodes)
        if node is None or node.op != Softmax(self.edit.value(node.output).type.rank - 1):
            return None
        masks: list[Mask] = []
        node = self._before(node.inputs[0], nodes)
        factors: list[str] = []
        while node is not None and not isinstance(node.op, MatMul):
            name = self._multiplied(node, factors) or (
                None if factors else self._masked(node, masks)
            )
            node = None if name is None else self._before(name, nodes)
        if node is None or (blind is not None and not self._is_of(blind, masks)):
            return None
        if factors and not self._keep_range(node.inputs[0], factors):
            return None
        if blind is not None and any(isinstance(one.op, Reshape) for one in nodes):
            return None  # what chooses zeros goes with scores of one shape
        zeros = blind is not None and not self._is_never(blind)
        return Scores(tuple(reversed(nodes)), tuple(masks), zeros, tuple(factors))

    def _is_never(self, blind: Node) -> bool:
        """Return whether zeros are there, but chosen nowhere."""
        chooses, first, _ = map(self.edit.data, blind.inputs)
        return first is not None and chooses is not None and not chooses.any()

    def _left_by(self, blind: Node) -> str:
        """Return the weights that are left where a query sees something: others become 0."""
        _, first, second = blind.inputs
        return second if self.edit.data(first) is not None else first

    def _before(self, name: str, nodes: list[Node]) -> Node | None:
        """Note what computes a value for one reader only, and return it.

        Conversions between floating types are noted, and passed: scores are float32 anyway. So are
        other shapes of the axes before queries and keys, as a mask of some of a batch needs them.
        """
        while (node := self.edit.producer(name)) is not None and self.edit.is_read_once(name):
            nodes.append(node)
            if not isinstance(node.op, (Cast, Reshape)):
                return node
            ends = [self.edit.value(one) for one in (name, node.inputs[0])]
            if not all(one.type.is_float for one in ends):
                return None
            if len({one.shape[-2:] for one in ends}) > 1 or min(one.type.rank for one in ends) < 2:
                return None
            name = node.inputs[0]
        return None

    def _multiplied(self, node: Node, factors: list[str]) -> str | None:
        """Note what multiplies a product's rows, and return the product."""
        kind = self.edit.value(node.output).type
        if node.op != Binary(BinaryFunction.MUL):
            return None
        for scores, factor in (node.inputs, node.inputs[::-1]):
            before, by = self.edit.producer(scores), self.edit.value(factor).shape
            if before is None or not (isinstance(before.op, MatMul) or before.op == node.op):
                continue
            if self.edit.value(scores).shape == kind.shape and by[-1:] in ((), (1,)):
                factors.append(factor)
                return scores
        return None

    def _keep_range(self, queries: str, factors: list[str]) -> bool:
        """Return whether queries stay finite, and as exact, when scores no longer are multiplied.

        In float16 that is known of queries that were divided by their length, after each factor.
        """
        if self.edit.value(queries).type.dtype != np.float16:
            return True
        if not self._is_of_length_one(queries):
            return False
        most = least = 1.0
        for factor in map(self.edit.data, factors):
            if factor is None:
                return False
            sizes = np.abs(factor[factor != 0].astype(np.float64))
            most *= float(np.maximum(sizes, 1).max(initial=1))
            least *= float(np.minimum(sizes, 1).min(initial=1))
        return most < _MOST and least > _LEAST_FACTOR

    def _is_of_length_one(self, name: str) -> bool:
        """Return whether vectors along the last axis were divided by their length, if not more."""
        quotient = self.edit.producer(name)
        if quotient is None or quotient.op != Binary(BinaryFunction.DIV):
            return False
        vectors, divisor = quotient.inputs
        node = self.edit.producer(divisor)
        while node is not None and (isinstance(node.op, Expand) or _is_floor(node.op)):
            node = self.edit.producer(node.inputs[0])
        length = Reduce(ReduceFunction.L2, (self.edit.value(name).type.rank - 1,))
        return node is not None and node.op == length and node.inputs[0] == vectors

    def _masked(self, node: Node, masks: list[Mask]) -> str | None:
        """Note the mask that a node lays on scores, and return these."""
        shape = self.edit.value(node.output).shape
        match node.op:
            case Binary(function=BinaryFunction.ADD, activation=None):
                for scores, mask in (node.inputs, node.inputs[::-1]):
                    if self.edit.value(scores).shape == shape and self._is_of_product(scores):
                        masks.append(Mask(mask, shape))
                        return scores
            case Where():
                seen, scores, least = node.inputs
                lowest = self._hidden(seen, least)
                if self.edit.value(scores).shape == shape and lowest is not None:
                    masks.append(Mask(seen, shape, lowest))
                    return scores
        return None

    def _is_of_product(self, name: str) -> bool:
        """Return whether a value is of a product, with masks or without."""
        node = self.edit.producer(name)
        while node is not None and isinstance(node.op, (Cast, Reshape, Where)):
            node = self.edit.producer(node.inputs[isinstance(node.op, Where)])
        if node is None:
            return False
        is_inside = node.op in (Binary(BinaryFunction.ADD), Binary(BinaryFunction.MUL))
        return isinstance(node.op, MatMul) or (
            is_inside and any(map(self._is_of_product, node.inputs))
        )

    def _hidden(self, seen: str, least: str) -> float | None:
        """Return what hidden scores become, if nothing is left of it: minus infinity, or nearly.

        The least finite number would be left where a query sees nothing.
        """
        data, shown = self.edit.data(least), self.edit.data(seen)
        if data is None or data.size != 1:
            return None
        lowest = float(data.reshape(()))
        is_safe = shown is not None and bool(shown.any(axis=-1).all())
        return lowest if lowest == -math.inf or (lowest < LEAST and is_safe) else None

    def _is_of(self, blind: Node, masks: list[Mask]) -> bool:
        """Return whether weights become 0 where a query sees nothing, or a key is hidden anyway."""
        chooses, first, second = blind.inputs
        nothing, node = self.edit.data(first), self.edit.producer(chooses)
        is_first = nothing is not None
        nothing = self.edit.data(second) if nothing is None else nothing
        if nothing is None or nothing.any():
            return False
        if self._is_never(blind):
            return True
        if len(masks) != 1:
            return False
        mask = masks[0].name
        if chooses == mask:
            return not is_first
        match node and node.op:
            case Binary(function=BinaryFunction.GREATER) if not is_first:
                assert node is not None
                return node.inputs[0] == mask and self._is_lowest(node.inputs[1])
            case Binary(function=BinaryFunction.EQUAL) if is_first:
                assert node is not None
                most = self.edit.producer(node.inputs[0])
                if most is None or most.inputs[0] != mask:
                    return False
                last = self.edit.value(mask).type.rank - 1
                return most.op == Reduce(ReduceFunction.MAX, (last,)) and self._is_lowest(
                    node.inputs[1]
                )
        return False

    def _is_lowest(self, name: str) -> bool:
        data = self.edit.data(name)
        return data is not None and bool((data.astype(np.float64) == -np.inf).all())
