"""Scales: batch norms, products and sums with constants become weights, biases and factors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    BatchNorm,
    Binary,
    BinaryFunction,
    Convolution,
    GroupNorm,
    Linear,
    MatMul,
)
from convfind_networks.ops.op import widened
from convfind_networks.passes.branches import merge_branches
from convfind_networks.tensor_type import Array

#: The largest factor of a product of computed matrices, and the least one's reciprocal: without a
#: larger one sums may overflow, or underflow, that are small, or large, with it.
_LARGEST_FACTOR = 2.0**32


@dataclass(frozen=True, slots=True)
class _Scale:
    """``x * factor + shift``, with one number of each for every channel, in float64."""

    x: str
    factor: Array
    shift: Array

    @property
    def only_shifts(self) -> bool:
        return bool((self.factor == 1).all())


def fold_scales(graph: Graph) -> Graph:
    """Fold what scales and shifts channels into the convolution, product or norm before it.

    What scales all of an operand of a product is folded into that as well, and convolutions of one
    value that are added up become one. Batch norms that are left keep no statistics: a square root
    and a quotient for every element take longer than its way through memory.
    """
    edit = GraphEditor(graph)
    for node in edit:
        if isinstance(node.op, MatMul):
            _fold_operands(edit, node, node.op)
            continue
        if merge_branches(edit, node, partial(_scaled, edit)):
            continue
        for x in dict.fromkeys(node.inputs):
            before = edit.producer(x)
            if before is not None and edit.is_read_once(x) and _fold(edit, before, node):
                break
        else:
            if isinstance(node.op, BatchNorm):
                _fold_statistics(edit, node, node.op)
    return edit.graph()


def _fold(edit: GraphEditor, before: Node, node: Node) -> bool:
    """Fold a node into the one before it; say whether that was possible."""
    match before.op:
        case Convolution(channel_axis=axis) | Linear(channel_axis=axis):
            scale = _scale(edit, node, before.output, axis)
            folded = scale and _into_weights(edit, before, before.op, scale)
        case BatchNorm(activation=None) | GroupNorm(activation=None):
            scale = _scale(edit, node, before.output, 1)
            folded = scale and _into_norm(edit, before, scale)
        case MatMul() as op if edit.value(before.output).shape:
            scale = _scale(edit, node, before.output, -1)
            folded = scale and _into_factor(edit, before, op, scale)
        case _:
            return False
    if not folded:
        return False
    edit.replace([before, node], Node(folded.op, folded.inputs, node.outputs, before.name))
    return True


def _scaled(edit: GraphEditor, node: Node) -> tuple[str, Array, Array] | None:
    """Return the value whose channels a node scales and shifts, and by how much."""
    for x in dict.fromkeys(node.inputs):
        if edit.data(x) is None and (scale := _scale(edit, node, x, 1)) is not None:
            return x, scale.factor, scale.shift
    return None


def _fold_operands(edit: GraphEditor, node: Node, op: MatMul) -> None:
    """Fold what scales the operands of a product into its factor."""
    for x in dict.fromkeys(node.inputs):
        before = edit.producer(x)
        if before is None or not isinstance(before.op, Binary) or not edit.is_read_once(x):
            continue
        operand = before.inputs[edit.data(before.inputs[0]) is not None]
        scale = _scale(edit, before, operand, -1)
        scaled = scale and _into_factor(edit, node, op, scale)
        if scaled:
            inputs = tuple(operand if name == x else name for name in node.inputs)
            edit.replace([before, node], node := replace(scaled, inputs=inputs))
            op = scaled.op  # type: ignore[assignment]  # a product, as before


def _into_factor(edit: GraphEditor, node: Node, op: MatMul, scale: _Scale) -> Node | None:
    """Return a product whose factor has a scale in it that is one number."""
    factors = set(scale.factor.tolist())
    if len(factors) != 1 or scale.shift.any() or not edit.value(node.output).type.is_float:
        return None
    op = replace(op, alpha=op.alpha * factors.pop())
    if not 1 / _LARGEST_FACTOR <= abs(op.alpha) <= _LARGEST_FACTOR:  # nor one that is NaN
        return None
    return Node(op, node.inputs, node.outputs, node.name)


def _into_weights(
    edit: GraphEditor, node: Node, op: Convolution | Linear, scale: _Scale
) -> Node | None:
    x, w, *more = node.inputs
    epilogue, dtype = op.epilogue, edit.value(w).dtype
    weights = edit.data(w)
    bias = edit.data(more[0]) if epilogue.bias else np.zeros(scale.shift.shape)
    if epilogue.activation or bias is None:
        return None
    if not scale.only_shifts:
        if weights is None or epilogue.residual:
            return None
        w = edit.constant(op.scaled_weights(weights, scale.factor), like=w)
    shifted = (widened(bias) * scale.factor + scale.shift).astype(dtype)
    rest = more[epilogue.bias :]
    if epilogue.bias or shifted.any():
        rest = [edit.constant(shifted, like=f"{node.output}.bias"), *rest]
        op = replace(op, epilogue=replace(epilogue, bias=True))
    return Node(op, (x, w, *rest), node.outputs, node.name)


def _into_norm(edit: GraphEditor, node: Node, scale: _Scale) -> Node | None:
    x, gamma, beta, *statistics = node.inputs
    old_gamma, old_beta = edit.data(gamma), edit.data(beta)
    if old_gamma is None or old_beta is None:
        return None
    new_gamma = (widened(old_gamma) * scale.factor).astype(old_gamma.dtype)
    new_beta = (widened(old_beta) * scale.factor + scale.shift).astype(old_beta.dtype)
    names = edit.constant(new_gamma, like=gamma), edit.constant(new_beta, like=beta)
    return Node(node.op, (x, *names, *statistics), node.outputs, node.name)


def _fold_statistics(edit: GraphEditor, node: Node, op: BatchNorm) -> None:
    """Leave a norm a factor and a shift for each channel; 16 bits would round them once more."""
    x, *names = node.inputs
    dtype = edit.value(x).dtype
    known = _factor_and_shift(edit, node, op)
    if len(names) < 4 or known is None or dtype.itemsize < 4:
        return
    scaled = [
        edit.constant(numbers.astype(dtype), like=name)
        for name, numbers in zip(names[:2], known, strict=True)
    ]
    edit.replace([node], Node(op, (x, *scaled), node.outputs, node.name))


def _factor_and_shift(edit: GraphEditor, node: Node, op: BatchNorm) -> tuple[Array, Array] | None:
    """Return what a norm does to channels; None: not known, or beyond the type of its input.

    A variance of 0 without an epsilon is divided by: the shift would be NaN where results are not.
    """
    x, *names = node.inputs
    known = [widened(data) for name in names if (data := edit.data(name)) is not None]
    if len(known) < len(names):
        return None
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        numbers = op.scale_and_shift(*known)
        if not np.isfinite([one.astype(edit.value(x).dtype) for one in numbers]).all():
            return None
    return numbers


def _scale(edit: GraphEditor, node: Node, x: str, axis: int) -> _Scale | None:
    """Return what a node does to the channels of x, or None where it does something else."""
    shape = edit.value(x).shape
    channels = shape[axis]
    ones, zeros = np.ones(channels), np.zeros(channels)
    match node.op:
        case BatchNorm(activation=None) as norm if node.inputs[0] == x and axis % len(shape) == 1:
            known = _factor_and_shift(edit, node, norm)
            return known and _Scale(x, *known)
        case Binary(function=function, activation=None):
            a, b = node.inputs
            other = b if a == x else a
            data = edit.data(other)
            if data is None or edit.value(node.output).type != edit.value(x).type:
                return None
            numbers = _per_channel(widened(data), shape, axis)
            if numbers is None:
                return None
            return _arithmetic(function, x, numbers, ones, zeros, x_first=a == x)
    return None


def _arithmetic(
    function: BinaryFunction, x: str, numbers: Array, ones: Array, zeros: Array, *, x_first: bool
) -> _Scale | None:
    match function:
        case BinaryFunction.ADD:
            return _Scale(x, ones, numbers)
        case BinaryFunction.MUL:
            return _Scale(x, numbers, zeros)
        case BinaryFunction.SUB:
            return _Scale(x, ones, -numbers) if x_first else _Scale(x, -ones, numbers)
        case BinaryFunction.DIV if x_first and (numbers != 0).all():
            return _Scale(x, 1 / numbers, zeros)
    return None


def _per_channel(data: Array, shape: tuple[int, ...], axis: int) -> Array | None:
    """Return a constant as one number for each channel, or None where it has more."""
    wide = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
    axis %= len(shape)
    if any(size != 1 for at, size in enumerate(wide.shape) if at != axis):
        return None
    numbers: np.ndarray[Any, Any] = np.broadcast_to(wide.reshape(-1), (shape[axis],))
    return numbers
