"""Plans compute what networks mean: every result within bounds that follow from the steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from errors_for_tests import error_bounds
from networks_for_tests import graph_of
from plans_for_tests import Layers, compiled, inputs_of

from convfind.handle import Handle
from convfind_networks import Graph, GraphBuilder, Value, evaluate, optimize
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    AveragePool,
    Binary,
    BinaryFunction,
    Concat,
    Epilogue,
    GlobalPool,
    Interpolation,
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
    Window,
)
from convfind_networks.plan import Plan

RELU = Activation(ActivationKind.RELU)
Make = Callable[..., Value | dict[str, Value]]


def assert_right(plan: Plan, graph: Graph, seed: int = 0) -> None:
    """Run a plan and hold it to the reference."""
    inputs = inputs_of(graph, seed)
    got, expected = plan.run(inputs), evaluate(graph, inputs)
    bounds = error_bounds(plan, graph, inputs)
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert got[name].shape == array.shape
        assert got[name].dtype == np.float32
        error = np.abs(got[name] - array)
        assert (error <= bounds[name]).all(), (name, float(error.max()), float(bounds[name].max()))


def two_convolutions(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    a = make.convolution(x, 8)
    return {"y": make.convolution(a, 5, size=1), "other": make.convolution(a, 4, stride=2)}


def residual_block(builder: GraphBuilder, x: Value) -> Value:
    make = Layers(builder)
    first = make.relu(make.norm(make.convolution(x, 8)))
    second = make.norm(make.convolution(first, 8))
    return make.convolution(make.relu(make.sum(second, first)), 6, size=1)


def bottleneck(builder: GraphBuilder, x: Value) -> Value:
    """The block of YOLO, x + silu(conv(silu(conv(x)))), behind a layer and before one."""
    make, silu = Layers(builder), Activate(Activation(ActivationKind.SILU))
    first = builder.add(silu, make.norm(make.convolution(x, 8, size=1)))
    inner = builder.add(silu, make.norm(make.convolution(first, 4)))
    outer = builder.add(silu, make.norm(make.convolution(inner, 8)))
    return make.convolution(make.sum(first, outer), 6, size=1)


def depthwise_block(builder: GraphBuilder, x: Value) -> Value:
    make = Layers(builder)
    clip = Activate(Activation(ActivationKind.CLIP, (0.0, 6.0)))
    wide = builder.add(clip, make.norm(make.convolution(x, 12, size=1)))
    deep = builder.add(clip, make.norm(make.convolution(wide, 12, groups=12, stride=2)))
    return make.norm(make.convolution(deep, 7, size=1))


def linear_layers(builder: GraphBuilder, x: Value) -> Value:
    make = Layers(builder)
    epilogue = Epilogue(bias=True, activation=RELU)
    first = builder.add(Linear(epilogue), x, make.weights(9, x.shape[-1]), make.weights(9))
    return builder.add(Linear(), first, make.weights(5, 9))


def classifier(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    window = Window((3, 3), (2, 2), (1, 1), (1, 1), (1, 1))
    first = builder.add(MaxPool(window), make.relu(make.norm(make.convolution(x, 8, stride=2))))
    second = make.relu(make.convolution(first, 10))
    pooled = builder.add(GlobalPool(PoolKind.AVERAGE), second)
    flat = builder.add(Reshape(pooled.shape[:2]), pooled)
    logits = builder.add(Linear(Epilogue(bias=True)), flat, make.weights(7, 10), make.weights(7))
    return {"y": builder.add(Softmax(1), logits), "features": second}


def dense_block(builder: GraphBuilder, x: Value) -> Value:
    make = Layers(builder)
    values = [x]
    for _ in range(3):
        whole = builder.add(Concat(1), *values) if len(values) > 1 else x
        values.append(make.convolution(make.relu(make.norm(whole)), 4))
    whole = make.relu(builder.add(Concat(1), *values))
    window = Window((2, 2), (2, 2), (0, 0), (1, 0), (1, 1))
    return builder.add(AveragePool(window), whole)


def squeeze_and_excite(builder: GraphBuilder, x: Value) -> Value:
    make = Layers(builder)
    data = make.convolution(x, 8)
    gate = make.relu(make.convolution(builder.add(GlobalPool(PoolKind.AVERAGE), data), 3, size=1))
    sigmoid = Activate(Activation(ActivationKind.SIGMOID))
    gate = builder.add(sigmoid, make.convolution(gate, 8, size=1))
    return make.convolution(builder.add(Binary(BinaryFunction.MUL), data, gate), 5, size=1)


def branches(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    left, right = builder.add_all(Split(1, (2, 2)), make.convolution(x, 4))
    joined = builder.add(Concat(1), make.convolution(left, 3), make.relu(right))
    return {"joined": joined, "left": left, "sum": make.sum(left, right)}


def attention(builder: GraphBuilder, x: Value) -> Value:
    make = Layers(builder)
    width = x.shape[-1]
    q, k, v = (builder.add(Linear(), x, make.weights(width, width)) for _ in range(3))
    scores = builder.add(MatMul(alpha=0.375), q, builder.add(Transpose((0, 2, 1)), k))
    return builder.add(MatMul(), builder.add(Softmax(2), scores), v)


def upsampling(builder: GraphBuilder, x: Value) -> Value:
    make = Layers(builder)
    low = make.relu(make.convolution(x, 6, stride=2))
    sizes = (low.shape[0], low.shape[1], *(2 * size for size in low.shape[2:]))
    high = builder.add(Resize(sizes, (1, 1, 2, 2), Interpolation.LINEAR), low)
    near = builder.add(Resize(sizes, (1, 1, 2, 2), Interpolation.NEAREST), low)
    padded = builder.add(Pad((0, 0, 1, 0), (0, 0, 0, 1)), builder.add(Concat(1), high, near))
    return make.convolution(padded, 4)


def channels_at_the_end(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    """What frameworks with channels at the end export: transposes at the edges, and one inside."""
    make, rank = Layers(builder), x.type.rank
    to_second = Transpose((0, rank - 1, *range(1, rank - 1)))
    to_end = Transpose((0, *range(2, rank), 1))
    inner = make.relu(make.convolution(builder.add(to_second, x), 6))
    turned = builder.add(to_end, inner)
    deep = make.convolution(builder.add(to_second, make.relu(turned)), 5)
    return {"y": builder.add(to_end, make.sum(deep, make.convolution(inner, 5))), "inner": turned}


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (two_convolutions, (2, 3, 13, 11)),
        (two_convolutions, (1, 5, 9, 7)),
        (residual_block, (2, 8, 10, 7)),
        (depthwise_block, (3, 4, 9, 13)),
        (classifier, (2, 3, 21, 17)),
        (classifier, (1, 3, 16, 16)),
        (dense_block, (1, 4, 8, 8)),
        (dense_block, (3, 4, 7, 5)),
        (squeeze_and_excite, (2, 4, 6, 9)),
        (branches, (1, 4, 16, 16)),
        (branches, (2, 4, 5, 7)),
        (residual_block, (2, 4, 13)),
        (bottleneck, (2, 3, 9, 10)),
        (residual_block, (1, 4, 5, 4, 6)),
        (attention, (2, 5, 8)),
        (upsampling, (1, 3, 8, 6)),
        (channels_at_the_end, (2, 7, 9, 3)),
        (channels_at_the_end, (1, 5, 4, 6, 3)),
        (channels_at_the_end, (2, 11, 4)),
        (linear_layers, (3, 7)),
        (linear_layers, (2, 5, 7)),
    ],
)
def test_a_plan_computes_what_the_graph_means(
    handle: Handle, make: Make, shape: tuple[int, ...], channels_last: bool
) -> None:
    graph = optimize(graph_of(make, shape))
    plan = compiled(handle, graph, channels_last=channels_last)
    assert_right(plan, graph)
    assert_right(plan, graph, seed=1)
