"""Operations that no kernel has, in terms of those that kernels have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from convfind_networks.graph import Graph, GraphBuilder, Node, Value
from convfind_networks.importing import Composer
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BinaryFunction,
    Convolution,
    DeformableConvolution,
    Dequantize,
    Expand,
    Gather,
    GatherND,
    IntegerConvolution,
    IntegerMatMul,
    MatMul,
    Op,
    Quantize,
    ReduceFunction,
    ScatterElements,
    ScatterND,
    Slice,
    UnaryFunction,
    Where,
)
from convfind_networks.sampling import Sampling, sampled

#: Makes of an operation and its inputs others that compute the same.
_Decomposition = Callable[[Composer, Any, tuple[Value, ...]], Value]


def decompose(graph: Graph) -> Graph:
    """Return the graph without operations that no kernel has, where others can say the same."""
    if not any(_decomposition(node.op) for node in graph.nodes):
        return graph
    builder = GraphBuilder()
    values = {name: builder.input(name, graph.values[name].type) for name in graph.inputs}

    def value(name: str) -> Value:
        if name not in values:
            values[name] = builder.constant(graph.values[name].data, name=name)
        return values[name]

    for node in graph.nodes:
        values.update(zip(node.outputs, _decomposed(builder, node, value), strict=True))
    return builder.graph({public: value(name) for public, name in graph.outputs.items()})


def _decomposed(
    builder: GraphBuilder, node: Node, value: Callable[[str], Value]
) -> tuple[Value, ...]:
    inputs = tuple(map(value, node.inputs))
    made = _decomposition(node.op)
    if made is None:
        return builder.add_all(node.op, *inputs, name=node.output)
    return (made(Composer(builder, node.output), node.op, inputs),)


def _decomposition(op: Op) -> _Decomposition | None:
    if isinstance(op, Activate):
        return _power if op.activation.kind is ActivationKind.POWER else None
    return _DECOMPOSITIONS.get(type(op))


def _power(add: Composer, op: Activate, inputs: tuple[Value, ...]) -> Value:
    (x,) = inputs
    offset, scale, exponent = op.activation.numbers
    base = add.times(x, scale)
    if offset:
        base = add.plus(base, offset)
    return add.binary(BinaryFunction.POW, base, exponent)


# -- small whole numbers ------------------------------------------------------------------------


def _along(add: Composer, parameter: Value, x: Value, axis: int) -> Value:
    """Return scales or zero points in a shape that broadcasts against x; see `Quantize`."""
    if parameter.type.elements == 1:
        return add.reshape(parameter)
    if parameter.type.rank == 1:
        return add.reshape(parameter, parameter.shape[0], *(1,) * (x.type.rank - axis - 1))
    before, after = parameter.shape[: axis + 1], parameter.shape[axis + 1 :]
    each = -(-x.shape[axis] // parameter.shape[axis])
    spread = add.add(Expand((*before, each, *after)), add.reshape(parameter, *before, 1, *after))
    blocks = add.reshape(spread, *before[:-1], before[-1] * each, *after)
    return add.add(Slice.of(blocks.shape, {axis: slice(x.shape[axis])}), blocks)


def _dequantize(add: Composer, op: Dequantize, inputs: tuple[Value, ...]) -> Value:
    x, scale, *zero = inputs
    real = add.cast(x, np.float32)
    for one in zero:
        real = add.minus(real, _along(add, add.cast(one, np.float32), x, op.axis))
    scaled = add.times(real, _along(add, add.cast(scale, np.float32), x, op.axis))
    return add.cast(scaled, op.dtype)


def _quantize(add: Composer, op: Quantize, inputs: tuple[Value, ...]) -> Value:
    x, scale, *zero = inputs
    x, scale = add.cast(x, np.float32), add.cast(scale, np.float32)
    real = add.over(x, _along(add, scale, x, op.axis))
    is_float = "float" in op.dtype.name
    limits: Any = (ml_dtypes.finfo if is_float else ml_dtypes.iinfo)(op.dtype)
    if not is_float:
        real = add.unary(UnaryFunction.ROUND, real)
        for one in zero:
            real = add.plus(real, _along(add, add.cast(one, np.float32), x, op.axis))
    bounds = Activation(ActivationKind.CLIP, (float(limits.min), float(limits.max)))
    return add.cast(add.add(Activate(bounds), real), op.dtype)


def _integer_matmul(add: Composer, op: IntegerMatMul, inputs: tuple[Value, ...]) -> Value:
    a, b, a_zero, b_zero = (add.cast(one, np.int32) for one in inputs)
    return add.add(MatMul(), _shifted(add, a, a_zero), _shifted(add, b, b_zero))


def _integer_convolution(add: Composer, op: IntegerConvolution, inputs: tuple[Value, ...]) -> Value:
    """Return int32 sums by way of float64, which holds every one of them exactly."""
    x, w, x_zero, w_zero = (add.cast(one, np.float64) for one in inputs)
    x = _shifted(add, x, add.reshape(x_zero))
    if w_zero.type.elements > 1:
        w_zero = add.reshape(w_zero, w_zero.type.elements, *(1,) * (w.type.rank - 1))
    else:
        w_zero = add.reshape(w_zero)
    return add.cast(add.add(Convolution(op.geometry), x, _shifted(add, w, w_zero)), np.int32)


def _shifted(add: Composer, x: Value, zero: Value) -> Value:
    is_zero = zero.data is not None and not np.asarray(zero.data).any()
    return x if is_zero else add.minus(x, zero)


# -- elements by tuples of indices --------------------------------------------------------------


def _flat(add: Composer, indices: Value, sizes: tuple[int, ...]) -> Value:
    """Return tuples of indices, along the last dimension, as places in flattened dimensions."""
    indices = add.cast(indices, np.int64)
    counted = add.plus(indices, add.const(np.asarray(sizes, np.int64)))
    negative = add.binary(BinaryFunction.LESS, indices, 0)
    places = add.add(Where(), negative, counted, indices)
    steps = np.cumprod((1, *sizes[:0:-1]))[::-1].astype(np.int64)
    if len(sizes) > 1:
        places = add.times(places, add.const(steps))
    return add.reduce(ReduceFunction.SUM, places, -1, keepdims=False)


def _gather_nd(add: Composer, op: GatherND, inputs: tuple[Value, ...]) -> Value:
    x, indices = inputs
    b, depth = op.batch_dims, indices.shape[-1]
    batch, sizes, rest = x.shape[:b], x.shape[b : b + depth], x.shape[b + depth :]
    places = _flat(add, indices, sizes)
    if b:
        first = np.arange(math.prod(batch), dtype=np.int64) * math.prod(sizes)
        more = (1,) * (places.type.rank - b)
        places = add.plus(places, add.const(first.reshape(*batch, *more)))
    return add.add(Gather(0), add.reshape(x, math.prod(batch) * math.prod(sizes), *rest), places)


def _scatter_nd(add: Composer, op: ScatterND, inputs: tuple[Value, ...]) -> Value:
    x, indices, updates = inputs
    depth = indices.shape[-1]
    sizes, each = x.shape[:depth], math.prod(x.shape[depth:])
    places = _flat(add, indices, sizes)
    count = places.type.elements
    spread = add.add(Expand((count, each)), add.reshape(places, count, 1))
    flat = add.reshape(x, math.prod(sizes), each), spread, add.reshape(updates, count, each)
    return add.reshape(add.add(ScatterElements(0, op.combine), *flat), *x.shape)


def _deformable(add: Composer, op: DeformableConvolution, inputs: tuple[Value, ...]) -> Value:
    """Gather the moved taps into columns, and multiply."""
    x, w, offsets, *mask = inputs
    n, channels, out = x.shape[0], x.shape[1], offsets.shape[2:]
    parts, taps, image = op.offset_groups, math.prod(w.shape[2:]), math.prod(out)
    each = (n * parts, taps, 2, image)
    moved = add.reshape(offsets, *each)
    still = np.stack([op.positions(tap, w.shape[2:], out) for tap in range(taps)])
    at = add.plus(moved, add.const(still.reshape(1, *each[1:]), like=moved))
    axes = (add.add(Slice.of(each, {2: slice(axis, axis + 1)}), at) for axis in (0, 1))
    positions = [add.reshape(axis, n * parts, taps * image) for axis in axes]
    whole = add.reshape(x, n * parts, channels // parts, *x.shape[2:])
    columns = sampled(add, whole, positions, Sampling())
    for one in mask:
        columns = add.times(columns, add.reshape(one, n * parts, 1, taps * image))
    groups = op.geometry.groups
    depth = channels // groups * taps
    rows = add.reshape(w, groups, w.shape[0] // groups, depth)
    sums = add.add(MatMul(), rows, add.reshape(columns, n, groups, depth, image))
    return add.reshape(sums, n, w.shape[0], *out)


_DECOMPOSITIONS: dict[type[Op], _Decomposition] = {
    DeformableConvolution: _deformable,
    Dequantize: _dequantize,
    GatherND: _gather_nd,
    IntegerConvolution: _integer_convolution,
    IntegerMatMul: _integer_matmul,
    Quantize: _quantize,
    ScatterND: _scatter_nd,
}
