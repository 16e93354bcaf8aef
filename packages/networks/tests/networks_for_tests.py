"""Networks that tests share: ONNX's own light models, small graphs, and PyTorch's architectures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from convfind_networks import (
    Graph,
    GraphBuilder,
    Node,
    TensorType,
    Value,
    assign_layouts,
    evaluate,
)
from convfind_networks.layouts import LaidOut, lay_out

LIGHT_MODELS = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


def onnx_model(
    nodes: list[Any],
    inputs: Mapping[str, tuple[Any, ...]],
    outputs: tuple[str, ...] = ("y",),
    weights: Mapping[str, Any] | None = None,
    opset: int = 20,
) -> onnx.ModelProto:
    """Return a model of some nodes, with float32 inputs of these dimensions."""
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "made",
        [onnx.helper.make_tensor_value_info(n, kind, dims) for n, dims in inputs.items()],
        [onnx.helper.make_value_info(n, onnx.TypeProto()) for n in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()],
    )
    for output in graph.output:
        output.type.tensor_type.elem_type = kind
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def graph_of(make: Callable[..., Value | dict[str, Value]], *shapes: tuple[int, ...]) -> Graph:
    """Return the graph that a function of a builder and float32 inputs makes."""
    builder = GraphBuilder()
    inputs = [
        builder.input(f"x{at}", TensorType(np.dtype(np.float32), shape))
        for at, shape in enumerate(shapes)
    ]
    made = make(builder, *inputs)
    return builder.graph(made if isinstance(made, dict) else {"y": made})


def laid_out_alike(graph: Graph, *, last: bool = True) -> LaidOut:
    """Return a graph whose values are channels-last wherever they can be, or nowhere."""

    def node_cost(_: Node, reads_last: bool, writes_last: bool) -> float:
        return math.inf if reads_last != writes_last else float(reads_last != last)

    return lay_out(graph, assign_layouts(graph, node_cost, lambda _: 0.0))


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return random numbers for every input."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(graph.values[name].shape) for name in graph.inputs}


def assert_same_results(graph: Graph, other: Graph, tolerance: float = 1e-5) -> None:
    """Hold two graphs to the same results; folded weights are rounded to float32."""
    inputs = random_inputs(graph)
    expected, got = evaluate(graph, inputs), evaluate(other, inputs)
    assert expected.keys() == got.keys()
    for name, array in expected.items():
        finite = np.abs(array, where=np.isfinite(array), out=np.zeros_like(array))
        scale = max(1.0, float(finite.max(initial=0.0)))
        np.testing.assert_allclose(got[name], array, rtol=0, atol=tolerance * scale)


def exported(module: nn.Module, *examples: torch.Tensor) -> Any:
    """Export a module as it runs after training, with statistics that are not the usual ones."""
    torch.manual_seed(0)
    for one in module.modules():
        if isinstance(one, nn.BatchNorm2d):
            if one.affine:
                nn.init.uniform_(one.weight, 0.5, 1.5)
                nn.init.normal_(one.bias, std=0.1)
            assert one.running_mean is not None
            assert one.running_var is not None
            nn.init.normal_(one.running_mean, std=0.1)
            nn.init.uniform_(one.running_var, 0.5, 1.5)
    return torch.export.export(module.eval(), examples)


class Bottleneck(nn.Module):
    """The block of ResNet-50: 1x1, 3x3, 1x1, and a shortcut that may be a 1x1."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)),
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or channels != out:
            projection = nn.Conv2d(channels, out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50(narrow: int = 1) -> nn.Module:
    """Return ResNet-50, with its channels divided by a number."""
    first = 64 // narrow
    layers: list[nn.Module] = [
        *(nn.Conv2d(3, first, 7, 2, 3, bias=False), nn.BatchNorm2d(first), nn.ReLU()),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = first
    for stage, (width, blocks) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            layers.append(Bottleneck(channels, width // narrow, stride))
            channels = 4 * width // narrow
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000 // narrow)]
    return nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    """The block of MobileNet-V2: 1x1 to more channels, depthwise 3x3, 1x1 without activation."""

    def __init__(self, channels: int, out: int, stride: int, grow: int) -> None:
        super().__init__()
        width = channels * grow
        layers: list[nn.Module] = []
        if grow > 1:
            layers += [nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6()]
        layers += [
            *(nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False),),
            *(nn.BatchNorm2d(width), nn.ReLU6()),
            *(nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)),
        ]
        self.body = nn.Sequential(*layers)
        self.residual = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x)
        return x + y if self.residual else y


def mobilenet_v2() -> nn.Module:
    """Return MobileNet-V2."""
    layers: list[nn.Module] = [
        *(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6())
    ]
    channels = 32
    for grow, out, blocks, stride in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for block in range(blocks):
            layers.append(InvertedResidual(channels, out, 1 if block else stride, grow))
            channels = out
    layers += [
        *(nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(1280, 1000)),
    ]
    return nn.Sequential(*layers)
