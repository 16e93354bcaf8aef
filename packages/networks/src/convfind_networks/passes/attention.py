"""Attention: products with a softmax between them become one operation, heads where they lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    Attention,
    Binary,
    BinaryFunction,
    Expand,
    MatMul,
    Op,
    Reshape,
    Slice,
    Split,
    StridedView,
    Transpose,
    Where,
)
from convfind_networks.passes.arrangement import Arrangement
from convfind_networks.passes.attention_scores import LEAST, Mask, Scores, scores_before
from convfind_networks.passes.dead_code import remove_dead_code
from convfind_networks.tensor_type import Array, TensorType, is_float

#: Whether an operation that reads these types should be there.
Wanted = Callable[[Attention, tuple[TensorType, ...]], bool]
#: The most elements of a mask that others are joined to.
_LARGEST = 2**24
#: Up to so much may be added to scores that count for nothing, and to others.
_MOST_ADDED = 1e4
#: Operations whose results are parts of their input, or all of it in another order.
_REARRANGED = (Reshape, Transpose, Split, Slice)


def fuse_attention(graph: Graph, wanted: Wanted) -> Graph:
    """Return a graph with attention as one operation where that is wanted.

    Args:
        graph: the graph, its factors in the products.
        wanted: tells whether an operation should be there, from it and the types that it reads.
    """
    edit = GraphEditor(graph)
    for node in edit:
        if isinstance(node.op, MatMul):
            scores = scores_before(node, edit)
            if scores is not None:
                _Fusion(edit, graph.readers, scores).fuse(wanted)
    return remove_dead_code(edit.graph())


@dataclass(frozen=True, slots=True)
class _Fusion:
    """Makes one operation of an attention's nodes."""

    edit: GraphEditor
    readers: Mapping[str, tuple[Node, ...]]
    scores: Scores

    def fuse(self, wanted: Wanted) -> None:
        """Put it in their place, where it is wanted, and heads are where kernels can read them."""
        first, last = self.scores.nodes[0], self.scores.nodes[-1]
        assert isinstance(first.op, MatMul)
        factors = (*first.inputs, last.inputs[1])
        if len({self.edit.value(name).shape[:-2] for name in factors}) > 1:
            return  # what products repeat
        queries, added = self._multiplied(first.inputs[0])
        parts = (
            self._part(queries),
            self._part(first.inputs[1], is_turned=True),
            self._part(last.inputs[1]),
        )
        (q, of_q, a), (k, of_k, b), (v, of_v, c) = parts
        if of_q is None or of_k is None or of_v is None or c != 1:
            return
        scale = first.op.alpha * a * b
        heads = (*of_q.shape[:3], of_v.shape[3])
        behind, y = self._behind(last, heads)
        masks = self._masks(heads[:3] + of_k.shape[2:3])
        if masks is None:
            return
        mask, causal, shaped = masks
        result = behind[-1] if behind else last
        shape = self.edit.value(result.output).shape
        op = Attention(shape, of_q, of_k, of_v, y, scale, causal, self.scores.zeros)
        inputs = (q, k, v, *mask)
        types = tuple(self.edit.value(name).type for name in inputs)
        if len({one.dtype for one in types[:3]}) > 1 or not wanted(op, types):
            return
        op.infer(*types)
        made = Node(op, inputs, result.outputs, last.name)
        self.edit.replace([*self.scores.nodes, *behind], *added, *shaped, made)

    def _multiplied(self, queries: str) -> tuple[str, list[Node]]:
        """Return queries that are multiplied by what scores would be, and the nodes for that."""
        nodes = list[Node]()
        for factor in self.scores.factors:
            made = self.edit.result(self.edit.value(queries).type, like=queries)
            nodes.append(Node(Binary(BinaryFunction.MUL), (queries, factor), (made,), made))
            queries = made
        return queries, nodes

    def _part(self, name: str, *, is_turned: bool = False) -> tuple[str, StridedView | None, float]:
        """Return the value in whose memory heads lie, how, and what they are multiplied by.

        They are batch, heads, sequence, depth; keys are turned, as the product reads them.
        """
        before = self.edit.producer(name)
        if is_turned and before is not None and _is_turn(before.op):
            name, is_turned = before.inputs[0], False
        name, scale = self._unscaled(name)
        name, is_shared = self._unrepeated(name)
        chain: list[tuple[Op, int]] = []
        sources, scales = [name], [scale]
        while True:
            name, scale = self._unscaled(sources[-1])
            node = self.edit.producer(name)
            if node is None or not isinstance(node.op, _REARRANGED):
                break
            chain.append((node.op, node.outputs.index(name)))
            sources.append(node.inputs[0])
            scales.append(scales[-1] * scale)
        sources[-1], scales[-1] = name, scales[-1] * scale
        for count in range(len(chain), -1, -1):
            shape = self.edit.value(sources[count]).shape
            part: Arrangement | None = Arrangement.packed(shape)
            for op, at in reversed(chain[:count]):
                part = part.after(op, at) if part is not None else None
            view = _of_four(part, is_shared)
            if view is not None:
                is_constant = self.edit.data(sources[count]) is not None
                placed = None if is_constant else view.turned(is_turned)
                return sources[count], placed, scales[count]
        return name, None, 1.0

    def _unscaled(self, name: str) -> tuple[str, float]:
        """Return what a value is a multiple of, and the number."""
        node, scale = self.edit.producer(name), 1.0
        while node is not None and node.op == Binary(BinaryFunction.MUL):
            for x, factor in (node.inputs, node.inputs[::-1]):
                data = self.edit.data(factor)
                is_number = data is not None and data.size == 1
                if is_number and self.edit.value(x).shape == self.edit.value(name).shape:
                    assert data is not None
                    name, scale = x, scale * float(data.reshape(()))
                    break
            else:
                break
            node = self.edit.producer(name)
        return name, scale

    def _unrepeated(self, name: str) -> tuple[str, bool]:
        """Return the heads that several heads of queries share, before they are repeated."""
        node = self.edit.producer(name)
        wide = self.edit.producer(node.inputs[0]) if node is not None else None
        if node is None or wide is None or not isinstance(node.op, Reshape):
            return name, False
        before, after = (self.edit.value(one).shape for one in (wide.inputs[0], wide.output))
        if not isinstance(wide.op, Expand) or len(before) != 5 or len(node.op.shape) != 4:
            return name, False
        batch, heads, _, *rest = before
        is_repeated = before[2] == 1 and after == (batch, heads, after[2], *rest)
        is_joined = node.op.shape == (batch, heads * after[2], *rest)
        return (wide.inputs[0], True) if is_repeated and is_joined else (name, False)

    def _behind(self, last: Node, heads: tuple[int, ...]) -> tuple[list[Node], StridedView]:
        """Return what rearranges the result, up to the last transpose, and where heads lie then."""
        behind, name = list[Node](), last.output
        while self.edit.is_read_once(name):
            (reader,) = self.readers[name]
            if not isinstance(reader.op, (Reshape, Transpose)):
                break
            behind.append(reader)
            name = reader.output
        for count in range(len(behind), 0, -1):
            if not isinstance(behind[count - 1].op, Transpose):
                continue
            whole = self.edit.value(behind[count - 1].output).shape
            part: Arrangement | None = Arrangement.packed(whole)
            for one in reversed(behind[:count]):
                shape = self.edit.value(one.inputs[0]).shape
                part = part.before(one.op, shape) if part is not None else None
            view = _of_four(part)
            if view is not None and view.shape == heads:
                return behind[:count], view
        packed = Arrangement.packed(heads).view()
        assert packed is not None
        return [], packed

    def _masks(self, scores: tuple[int, ...]) -> tuple[tuple[str, ...], bool, list[Node]] | None:
        """Return the mask, if any, whether a query sees keys up to its own place, and new nodes."""
        causal, left = False, list[Mask]()
        for mask in self.scores.masks:
            data, least = self.edit.data(mask.name), mask.least
            if self._is_beside_little(mask):
                least = max(least, LEAST)
            elif least > -math.inf:
                return None
            if data is not None and _is_causal(data, scores[2:], least):
                causal = True
            elif data is None or data.dtype == np.bool_ or data.any():
                left.append(mask)
        if not left:
            return (), causal, []
        made = self._joined(left, scores)
        return None if made is None else (made[0], causal, made[1])

    def _joined(
        self, masks: Sequence[Mask], scores: tuple[int, ...]
    ) -> tuple[tuple[str, ...], list[Node]] | None:
        """Return masks as one that an operation reads, and a node that gives it that shape.

        Several are joined where they are known.
        """
        shapes = [_repeated_to(scores, mask, self.edit.value(mask.name).shape) for mask in masks]
        known = [self.edit.data(mask.name) for mask in masks]
        wide: list[tuple[int, ...]] = [one for one in shapes if one is not None]
        if len(wide) < len(masks):
            return None
        data = [one.reshape(to) for one, to in zip(known, wide, strict=True) if one is not None]
        name = masks[0].name
        if len(data) == len(masks):
            one = _sum_of(data)
            return None if one is None else ((self.edit.constant(one, like=name),), [])
        if len(masks) > 1:
            return None
        kind, shape = self.edit.value(name).type, wide[0]
        if shape == kind.shape:
            return (name,), []
        made = self.edit.result(kind.with_shape(shape), like=name)
        return (made,), [Node(Reshape(shape), (name,), (made,), name)]

    def _is_beside_little(self, mask: Mask) -> bool:
        """Return whether others leave it open what a mask leaves: they add small numbers."""
        return all(self._is_little(one.name) for one in self.scores.masks if one is not mask)

    def _is_little(self, name: str) -> bool:
        node = self.edit.producer(name)
        if node is not None and isinstance(node.op, Where):
            return all(map(self._is_little, node.inputs[1:]))
        data = self.edit.data(name)
        return (
            data is not None
            and is_float(data.dtype)
            and bool((np.abs(data.astype(np.float64)) <= _MOST_ADDED).all())
        )


def _repeated_to(
    scores: tuple[int, ...], mask: Mask, shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the shape of a mask that is repeated to batch, heads, queries and keys.

    It may be of some sequences, after which it begins anew.
    """
    lead = (1,) * (len(mask.scores) - len(shape))
    steps = Arrangement.packed(lead + shape).axes
    if len(steps) != len(mask.scores):
        return None
    axes = zip(mask.scores, lead + shape, steps, strict=True)
    part = Arrangement(tuple(own if n == size else ((size, 0),) for size, n, own in axes))
    placed = part.shaped(scores)
    if placed is None:
        return None
    sizes = []
    for axis, factors in enumerate(placed.axes):
        used = list(factors)
        while used and axis == 0 and not used[0][1]:
            used.pop(0)
        is_used = {bool(step) for _, step in used}
        if len(is_used) > 1:
            return None
        sizes.append(math.prod(size for size, _ in used) if True in is_used else 1)
    return tuple(sizes)


def _sum_of(masks: Sequence[Array]) -> Array | None:
    """Return what masks come to together; None where it would be large."""
    if len(masks) == 1:
        return masks[0]
    is_bool = all(one.dtype == np.bool_ for one in masks)
    sizes = zip(*(one.shape for one in masks), strict=True)
    ends = [set(one) - {1} for one in sizes]
    if (
        any(len(one) > 1 for one in ends)
        or math.prod(max(one, default=1) for one in ends) > _LARGEST
    ):
        return None
    if is_bool:
        return np.asarray(reduce(np.logical_and, masks))
    kinds = {one.dtype for one in masks if one.dtype != np.bool_}
    kind = kinds.pop() if len(kinds) == 1 else np.dtype(np.float32)
    wide = (np.where(one, 0, -np.inf) if one.dtype == np.bool_ else one for one in masks)
    with np.errstate(over="ignore"):
        return np.asarray(sum(one.astype(np.float32) for one in wide)).astype(kind)


def _is_turn(op: Op) -> bool:
    """Return whether an operation swaps the last two dimensions only."""
    if not isinstance(op, Transpose):
        return False
    *outer, row, column = range(len(op.order))
    return op.order == (*outer, column, row)


def _of_four(part: Arrangement | None, is_shared: bool = False) -> StridedView | None:
    """Return batch, heads, sequence and depth of a stack of matrices; all before heads is batch.

    Where heads are shared, those that share them have the third axis.
    """
    if part is None:
        return None
    axes = part.axes[:2] + part.axes[3:] if is_shared else part.axes
    if len(axes) < 4:
        axes = (*((),) * (3 - len(axes)), *axes)
        axes = (axes[0], (), *axes[1:])
    outer = tuple(factor for axis in axes[:-3] for factor in axis)
    return Arrangement((outer, *axes[-3:]), part.start).view()


def _is_causal(mask: Array, ends: tuple[int, ...], least: float) -> bool:
    """Return whether a query sees the keys up to its own place, and those without change.

    Others are hidden by what is not over ``least``.
    """
    if mask.ndim < 2 or mask.shape[-2:] != ends or mask.size != ends[0] * ends[1]:
        return False
    plain, before = mask.reshape(ends), np.tri(*ends, dtype=np.bool_)
    if mask.dtype == np.bool_:
        return bool((plain == before).all())
    if not is_float(mask.dtype):
        return False
    return bool((plain[before] == 0).all() and (plain[~before].astype(np.float64) <= least).all())
