"""Layers with random weights, and plans of them that need no measuring."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from networks_for_tests import random_inputs

from convfind.handle import Handle
from convfind_networks import Graph, GraphBuilder, Value
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BatchNorm,
    Binary,
    BinaryFunction,
    Convolution,
    Geometry,
)
from convfind_networks.plan import Plan, compile_graph

RELU = Activation(ActivationKind.RELU)


class Layers:
    """Layers with random weights, in a builder."""

    def __init__(self, builder: GraphBuilder, seed: int = 1) -> None:
        self.builder = builder
        self._rng = np.random.default_rng(seed)

    def weights(self, *shape: int) -> Value:
        scale = np.float32(1 / max(1, math.prod(shape[1:])) ** 0.5)  # so that values stay near 1
        drawn = self._rng.standard_normal(shape, dtype=np.float32)
        return self.builder.constant(drawn * scale, name="w")

    def convolution(self, x: Value, channels: int, size: int = 3, **geometry: Any) -> Value:
        rank = x.type.rank - 2
        fields = {"padding": size // 2, "stride": 1, "dilation": 1, **geometry}
        groups = fields.pop("groups", 1)
        padding, stride, dilation = (
            (fields[name],) * rank for name in ("padding", "stride", "dilation")
        )
        op = Convolution(Geometry(stride, padding, padding, dilation, groups))
        return self.builder.add(
            op, x, self.weights(channels, x.shape[1] // groups, *(size,) * rank)
        )

    def norm(self, x: Value) -> Value:
        channels = x.shape[1]
        parameters = [self.weights(channels) for _ in range(3)]
        variance = self.builder.constant(
            self._rng.uniform(0.5, 1.5, channels).astype(np.float32), name="variance"
        )
        return self.builder.add(BatchNorm(), x, *parameters, variance)

    def relu(self, x: Value) -> Value:
        return self.builder.add(Activate(RELU), x)

    def sum(self, a: Value, b: Value) -> Value:
        return self.builder.add(Binary(BinaryFunction.ADD), a, b)


def compiled(handle: Handle, graph: Graph, **how: Any) -> Plan:
    """Compile without measuring: which solver it is does not matter here."""
    return compile_graph(handle, graph, **{"on_miss": "estimate", **how})


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return random float32 numbers for every input."""
    return {name: x.astype(np.float32) for name, x in random_inputs(graph, seed).items()}
