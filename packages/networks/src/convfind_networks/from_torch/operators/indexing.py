"""Elements that are picked, or replaced, by number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import (
    BinaryFunction,
    Combine,
    Concat,
    Expand,
    Gather,
    GatherElements,
    GatherND,
    ScatterElements,
    ScatterND,
    Slice,
    Where,
)
from convfind_networks.ops.matmul import broadcast_shape


def embedding(node: AtenNode) -> Value:
    """aten.embedding: rows by number."""
    return node.add(Gather(0), node.value("weight"), node.value("indices"))


def index_select(node: AtenNode) -> Value:
    """aten.index_select."""
    x, places = node.value(), node.value("index")
    flat = node.reshape(places, places.type.elements)  # one place alone has no dimension
    return node.add(Gather(node.axis("dim", x.type.rank)), x, flat)


def index(node: AtenNode) -> Value:
    """aten.index by tensors of whole numbers: one, or several along neighbouring axes."""
    x = node.value()
    axes, tensors = _indices(node)
    if len(axes) == 1:
        return node.add(Gather(axes[0]), x, tensors[0])
    first = axes[0]
    if axes != tuple(range(first, first + len(axes))):
        raise NotSupported(f"index tensors along axes {axes}")
    # The axes that are looked up come first, and what they give returns to their place.
    order = [*axes, *(axis for axis in range(x.type.rank) if axis not in axes)]
    found = node.add(GatherND(), node.transpose(x, *order), _tuples(node, tensors))
    new = found.type.rank - x.type.rank + len(axes)
    back = [*range(new, new + first), *range(new), *range(new + first, found.type.rank)]
    return node.transpose(found, *back)


def _indices(node: AtenNode) -> tuple[tuple[int, ...], tuple[Value, ...]]:
    """Return the axes along which tensors of whole numbers are given, and these."""
    given = [(axis, one) for axis, one in enumerate(node.get("indices")) if one is not None]
    axes, tensors = zip(*given, strict=True)
    if any(one.dtype.kind not in "iu" for one in tensors):
        raise NotSupported("a mask")
    return axes, tensors


def _tuples(node: AtenNode, tensors: Sequence[Value]) -> Value:
    """Return index tensors as the tuples that `GatherND` and `ScatterND` take."""
    shape = broadcast_shape(*(one.shape for one in tensors))
    columns = [
        node.reshape(node.add(Expand(shape), node.cast(one, np.int64)), *shape, 1)
        for one in tensors
    ]
    return node.add(Concat(len(shape)), *columns)


def put(node: AtenNode) -> Value:
    """aten.index_put by tensors of whole numbers from the first axis on, or by one mask."""
    x = node.value()
    values = node.cast(node.value("values"), x.dtype)
    given, adds = node.get("indices"), bool(node.get("accumulate", False))
    if len(given) == 1 and given[0].dtype == np.bool_ and values.type.elements == 1 and not adds:
        mask = node.reshape(given[0], *given[0].shape, *(1,) * (x.type.rank - given[0].type.rank))
        return node.add(Where(), mask, node.reshape(values), x)
    axes, tensors = _indices(node)
    if axes != tuple(range(len(axes))):
        raise NotSupported(f"index tensors along axes {axes}")
    tuples = _tuples(node, tensors)
    shape = (*tuples.shape[:-1], *x.shape[len(axes) :])
    op = ScatterND(Combine.ADD if adds else Combine.REPLACE)
    return node.add(op, x, tuples, node.add(Expand(shape), values))


def gather(node: AtenNode) -> Value:
    """aten.gather."""
    x = node.value()
    return node.add(GatherElements(node.axis("dim", x.type.rank)), x, node.value("index"))


def take_along(node: AtenNode) -> Value:
    """aten.take_along_dim: gather, of sizes that broadcast."""
    x, places = node.value(), node.value("indices")
    if node.get("dim") is None:
        x, places = (node.reshape(one, one.type.elements) for one in (x, places))
    axis = node.axis("dim", x.type.rank)
    sizes = zip(x.shape, places.shape, strict=True)
    shape = [max(pair) for pair in sizes]
    wide = [(*shape[:axis], one.shape[axis], *shape[axis + 1 :]) for one in (x, places)]
    return node.add(
        GatherElements(axis), node.add(Expand(wide[0]), x), node.add(Expand(wide[1]), places)
    )


def _scatter(combine: Combine) -> AtenOperator:
    """Return the function of aten.scatter, scatter_add or scatter_reduce."""

    def add(node: AtenNode) -> Value:
        x, places = node.value(), node.value("index")
        how = combine
        if (word := node.get("reduce")) is not None:
            if word not in _REDUCTIONS or not node.get("include_self", True):
                raise NotSupported(f"reduction {word}, or results without the elements before")
            how = _REDUCTIONS[word]
        source = node.get("src", node.get("value"))
        updates = node.typed(source, x.dtype)
        if not isinstance(source, Value):
            updates = node.add(Expand(places.shape), updates)
        elif updates.shape != places.shape:
            cut = {axis: slice(size) for axis, size in enumerate(places.shape)}
            updates = node.add(Slice.of(updates.shape, cut), updates)
        return node.add(ScatterElements(node.axis("dim", x.type.rank), how), x, places, updates)

    return add


_REDUCTIONS = {
    "add": Combine.ADD,
    "sum": Combine.ADD,
    "multiply": Combine.MUL,
    "prod": Combine.MUL,
    "amax": Combine.MAX,
    "amin": Combine.MIN,
}


def _by_slices(combine: Combine) -> AtenOperator:
    """Return the function of aten.index_add, index_copy or index_fill: slices, by number."""

    def add(node: AtenNode) -> Value:
        x, places = node.value(), node.value("index")
        axis = node.axis("dim", x.type.rank)
        source = node.get("source", node.get("value"))
        updates = node.times(node.typed(source, x.dtype), node.get("alpha", 1))
        shape = (*x.shape[:axis], places.type.elements, *x.shape[axis + 1 :])
        along = node.reshape(places, places.type.elements, *(1,) * (x.type.rank - axis - 1))
        spread = [node.add(Expand(shape), one) for one in (along, updates)]
        return node.add(ScatterElements(axis, combine), x, *spread)

    return add


def slice_scatter(node: AtenNode) -> Value:
    """aten.slice_scatter: x with a part replaced."""
    x = node.value()
    axis = node.axis("dim", x.type.rank)
    part = slice(node.get("start"), node.get("end"), node.get("step", 1))
    return _replaced(node, x, node.value("src"), axis, part)


def select_scatter(node: AtenNode) -> Value:
    """aten.select_scatter: x with one slice replaced."""
    x, source = node.value(), node.value("src")
    axis = node.axis("dim", x.type.rank)
    at = axis_of(int(node.get("index")), x.shape[axis])
    wide = node.reshape(source, *x.shape[:axis], 1, *x.shape[axis + 1 :])
    return _replaced(node, x, wide, axis, slice(at, at + 1))


def _replaced(node: AtenNode, x: Value, source: Value, axis: int, part: slice) -> Value:
    start, end, step = part.indices(x.shape[axis])
    source = node.cast(source, x.dtype)
    if step == 1:
        ends = (slice(start), slice(max(start, end), None))
        before, after = (node.add(Slice.of(x.shape, {axis: one}), x) for one in ends)
        return node.add(Concat(axis), before, source, after)
    places = np.arange(start, end, step).reshape(-1, *(1,) * (x.type.rank - axis - 1))
    spread = node.const(np.broadcast_to(places, source.shape).copy())
    return node.add(ScatterElements(axis), x, spread, source)


def one_hot(node: AtenNode) -> Value:
    """aten.one_hot: a comparison with every class."""
    x, classes = node.value(), int(node.get("num_classes", -1))
    if classes < 0:
        raise NotSupported("a number of classes that depends on data")
    wide = node.reshape(x, *x.shape, 1)
    same = node.binary(BinaryFunction.EQUAL, wide, node.const(np.arange(classes)))
    return node.cast(same, np.int64)


OPERATORS: AtenOperators = {
    "embedding": embedding,
    "index_select": index_select,
    "index": index,
    "index_put": put,
    "gather": gather,
    "take_along_dim": take_along,
    "scatter": _scatter(Combine.REPLACE),
    "scatter_add": _scatter(Combine.ADD),
    "scatter_reduce": _scatter(Combine.REPLACE),
    "index_add": _by_slices(Combine.ADD),
    "index_copy": _by_slices(Combine.REPLACE),
    "index_fill": _by_slices(Combine.REPLACE),
    "slice_scatter": slice_scatter,
    "select_scatter": select_scatter,
    "one_hot": one_hot,
}
