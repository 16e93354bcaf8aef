"""How far a plan's results may be from the reference: rounding errors, followed from node to node.

Each operation passes on the errors of its inputs and adds its own, to first order and with the
bounds of `convfind.checking.accuracy` for convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from convfind.checking.accuracy import UNIT_ROUNDOFF, bound_of, spread_magnitude
from convfind.checking.reference import reference_convolution
from convfind.solver import asking
from convfind.types import DataType
from convfind_networks import Graph, Node
from convfind_networks.lowering.activation import kernel_activation
from convfind_networks.ops import (
    Activate,
    Activation,
    AveragePool,
    BatchNorm,
    Binary,
    BinaryFunction,
    Concat,
    Convolution,
    GlobalPool,
    Identity,
    Linear,
    MatMul,
    MaxPool,
    Pad,
    PoolKind,
    Reshape,
    Resize,
    Softmax,
    Split,
    Transpose,
)
from convfind_networks.ops.op import as_tuple, widened
from convfind_networks.plan import Plan

Array = np.ndarray[Any, Any]

#: What is smaller may become 0.
_LEAST = float(np.finfo(np.float32).tiny)


def error_bounds(plan: Plan, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return for each output, by public name, how large errors may be at each element."""
    follow = _Errors(plan, graph)
    for name in graph.inputs:
        follow.values[name] = np.asarray(inputs[name], np.float64)
        follow.errors[name] = np.zeros(inputs[name].shape)
    for node in graph.nodes:
        follow.node(node)
    return {public: follow.error(name) for public, name in graph.outputs.items()}


class _Errors:
    def __init__(self, plan: Plan, graph: Graph) -> None:
        self.values: dict[str, Array] = {}
        self.errors: dict[str, Array] = {}
        self._plan = plan
        self._graph = graph
        self._tasks = {task.node: task for task in plan.schedule.tasks}

    def value(self, name: str) -> Array:
        data = self._graph.values[name].data
        return self.values[name] if data is None else widened(data)

    def error(self, name: str) -> Array:
        value = self._graph.values[name]
        return np.zeros(value.shape) if value.is_constant else self.errors[name]

    def node(self, node: Node) -> None:
        values = [self.value(name) for name in node.inputs]
        errors = [self.error(name) for name in node.inputs]
        with np.errstate(all="ignore"):
            results = as_tuple(node.op.evaluate(*values))
            bounds = as_tuple(self._bound(node, values, errors, results[0]))
        for name, result, bound in zip(node.outputs, results, bounds, strict=True):
            self.values[name] = result
            dtype = DataType(self._graph.values[name].dtype.name)
            self.errors[name] = bound + UNIT_ROUNDOFF[dtype] * np.abs(result) + _LEAST

    def _bound(self, node: Node, x: list[Array], e: list[Array], y: Array) -> Any:
        unit = 2.0**-24
        match node.op:
            case (
                BatchNorm(activation=Activation() as last) | Binary(activation=Activation() as last)
            ):
                before = replace(node, op=replace(node.op, activation=None))
                sums = np.asarray(before.op.evaluate(*x))
                error = self._bound(before, x, e, sums)
                return _activated(last, sums, error + unit * np.abs(sums), y)
            case Convolution() | Linear():
                return self._product(node, x, e, y)
            case Activate(activation=activation):
                return _activated(activation, x[0], e[0], y)
            case Identity() | Reshape() | Concat() | Pad() | Split() | Transpose():
                return node.op.evaluate(*e)
            case MatMul(alpha=alpha):
                sums = np.abs(x[0]) @ np.abs(x[1])
                passed = np.abs(x[0]) @ e[1] + e[0] @ np.abs(x[1]) + e[0] @ e[1]
                return abs(alpha) * (passed + (x[0].shape[-1] + 3) * unit * sums)
            case Resize():  # nearest or linear, whose weights are not negative
                return node.op.evaluate(e[0]) + 16 * unit * node.op.evaluate(np.abs(x[0]))
            case MaxPool() | GlobalPool(pool=PoolKind.MAX):
                return node.op.evaluate(*e)
            case AveragePool() | GlobalPool():
                return node.op.evaluate(e[0]) + 5 * x[0].size ** 0.5 * unit * node.op.evaluate(
                    np.abs(x[0])
                )
            case Binary(function=BinaryFunction.ADD | BinaryFunction.SUB):
                return e[0] + e[1]
            case Binary(function=BinaryFunction.MUL):
                return np.abs(x[0]) * e[1] + np.abs(x[1]) * e[0] + e[0] * e[1]
            case BatchNorm() as norm:
                scale, shift = (
                    one.reshape(-1, *(1,) * (y.ndim - 2)) for one in norm.scale_and_shift(*x[1:])
                )
                return np.abs(scale) * e[0] + 8 * unit * (np.abs(scale * x[0]) + np.abs(shift))
            case Softmax(axis=axis, log=log):
                largest = (e[0] + 2 * unit * np.abs(x[0])).max(axis=axis, keepdims=True)
                relative = np.expm1(2 * largest) + (y.shape[axis] + 16) * unit
                return relative if log else y * relative
        raise NotImplementedError(node.op.kind)

    def _product(self, node: Node, x: list[Array], e: list[Array], y: Array) -> Array:
        """Follow the errors of a convolution or a linear layer, then those of its epilogue."""
        op = node.op
        assert isinstance(op, (Convolution, Linear))
        task = self._tasks[node.output]
        solver = self._plan.handle.registry.solver(task.solution.solver)
        problem = task.problem.without_epilogue()
        weights = np.abs(x[1])
        sums, passed = _sums(op, np.abs(x[0]), weights), _sums(op, e[0], weights)
        scale = sums
        if isinstance(op, Convolution):  # errors of tiles are relative to the largest nearby
            reach = asking.error_reach(solver, problem)
            scale = spread_magnitude(sums, reach, channels_last=False)
        error = passed + bound_of(solver, problem).max_error * scale
        rest, rest_errors = x[2:], e[2:]
        unit = 2.0**-24
        if op.epilogue.bias:
            along = [1] * y.ndim
            along[op.channel_axis] = -1
            sums = sums + np.abs(rest.pop(0)).reshape(along)
            rest_errors = rest_errors[1:]
        if op.epilogue.residual and not op.epilogue.residual_last:
            sums = sums + np.abs(rest.pop(0))
            error = error + rest_errors[0]
        error = error + 4 * unit * sums
        if op.epilogue.activation is None:
            return error
        if not op.epilogue.residual_last:
            return _activated(op.epilogue.activation, sums, error, y)
        z = rest.pop(0)
        error = _activated(op.epilogue.activation, sums, error, np.abs(y) + np.abs(z))
        return error + rest_errors[0] + unit * np.abs(z)


def _sums(op: Convolution | Linear, x: Array, w: Array) -> Array:
    if isinstance(op, Linear):
        return np.asarray(x @ w.T)
    return reference_convolution(op.geometry.problem(x.shape, w.shape, dtype="float64"), x, w)


def _activated(activation: Activation, x: Array, error: Array, y: Array) -> Array:
    function = kernel_activation(activation)
    slope = function.largest_slope(float(np.abs(x).max(initial=0.0)))
    return slope * error + function.roundings * 2.0**-24 * (np.abs(y) + np.abs(x) * slope)
