"""Gated linear units are two steps: the linear layer, and the product of its halves in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from networks_for_tests import exported, graph_of, onnx_model
from plans_for_tests import Layers, compiled, inputs_of
from torch import nn

from convfind.device.target import DeviceKind
from convfind.handle import Handle
from convfind_networks import GraphBuilder, Network, Value, evaluate
from convfind_networks.layouts import channels_last_where_possible
from convfind_networks.ops import Activate, Activation, ActivationKind, Binary, BinaryFunction
from convfind_networks.passes import optimize
from convfind_networks.plan import Plan
from convfind_networks.plan.posing import Posing

pytest.importorskip("safetensors")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

#: Function of a gate in PyTorch, and the word for it.
GATES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu-erf": nn.functional.gelu,
    "gelu-tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "silu": nn.functional.silu,
    "sigmoid": torch.sigmoid,
}


class Gated(nn.Module):
    """A linear layer, one half of whose result is the gate of the other."""

    def __init__(self, gate: str, *, first: bool = False) -> None:
        super().__init__()
        self.linear, self.gate, self.is_first = nn.Linear(24, 128), GATES[gate], first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a: torch.Tensor
        b: torch.Tensor
        a, b = self.linear(x).chunk(2, dim=-1)
        return self.gate(a) * b if self.is_first else a * self.gate(b)


def steps(plan: Plan) -> list[tuple[str, str]]:
    """Return the tasks' kinds, and what they activate."""
    return [
        (task.problem.kind, getattr(task.problem, "activates", "")) for task in plan.schedule.tasks
    ]


def check(plan: Plan, network: Network, handle: Handle, folder: Path, tolerance: float) -> None:
    """Hold runs of a plan, and of what is saved of it, to the reference in float64."""
    inputs = inputs_of(network.optimized())
    expected = evaluate(network.optimized(), inputs)
    plan.save(folder / "plan")
    for one in (plan, Plan.load(folder / "plan", handle)):
        for _ in range(2):
            for name, got in one.run(inputs).items():
                right = expected[name]
                np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("first", [False, True])
def test_a_gated_linear_unit_is_two_steps(
    handle: Handle, gate: str, first: bool, tmp_path: Path
) -> None:
    program = exported(Gated(gate, first=first).eval(), torch.randn(2, 7, 24))
    network = Network.from_torch(program)
    plan = network.compile(handle, on_miss="estimate")
    assert steps(plan) == [("conv", ""), ("binary", "a" if first else "b")]
    check(plan, network, handle, tmp_path, 1e-4)


@pytest.mark.parametrize("autocast", ["float16", "bfloat16"])
def test_in_16_bits_it_is_so_too(handle: Handle, autocast: str, tmp_path: Path) -> None:
    network = Network.from_torch(exported(Gated("gelu-erf").eval(), torch.randn(2, 7, 24)))
    plan = network.compile(handle, on_miss="estimate", autocast=autocast)
    kinds = [kind for kind, _ in steps(plan) if kind != "cast"]
    assert kinds == ["conv", "binary"]
    check(plan, network, handle, tmp_path, 0.03)


def glu_model() -> onnx.ModelProto:
    """Return nn.GLU of a linear layer in ONNX, with a spelled-out SiLU as another gate."""
    rng = np.random.default_rng(1)
    node = onnx.helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Split", ["h"], ["a", "b", "c"], axis=-1, num_outputs=3),
        node("Sigmoid", ["b"], ["s"]),
        node("Mul", ["a", "s"], ["g"]),
        node("Sigmoid", ["c"], ["t"]),
        node("Mul", ["c", "t"], ["silu"]),
        node("Mul", ["silu", "g"], ["y"]),
    ]
    weights = {"w": rng.standard_normal((24, 192)).astype(np.float32)}
    return onnx_model(nodes, {"x": (2, 7, 24)}, weights=weights)


def test_gates_of_onnx_are_steps_of_their_products(handle: Handle, tmp_path: Path) -> None:
    network = Network.from_onnx(glu_model())
    plan = network.compile(handle, on_miss="estimate")
    assert steps(plan) == [("conv", ""), ("binary", "b"), ("binary", "a")]
    check(plan, network, handle, tmp_path, 1e-4)


def test_powers_are_computed_beside_what_they_were_fused_into(handle: Handle) -> None:
    power = Activate(Activation(ActivationKind.POWER, (3.0, 1.0, 1.5)))

    def make(builder: GraphBuilder, x: Value) -> Value:
        y = builder.add(power, Layers(builder).convolution(x, 4))
        product = builder.add(Binary(BinaryFunction.MUL), x, builder.add(power, x))
        return builder.add(Binary(BinaryFunction.SUB), y, product)

    graph = optimize(graph_of(make, (2, 4, 5, 5)))
    assert graph.count("Activate") == 0
    inputs = inputs_of(graph)
    inputs = {name: np.tanh(x) for name, x in inputs.items()}  # whose powers are numbers
    (got,), (right,) = (
        one.values() for one in (compiled(handle, graph).run(inputs), evaluate(graph, inputs))
    )
    np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)


class Images(nn.Module):
    """nn.GLU over the channels of a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.last = nn.Conv2d(3, 128, 3, padding=1), nn.Conv2d(64, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(nn.functional.glu(self.convolution(x), dim=1))
        return y


@pytest.mark.parametrize("channels_last", [False, True])
def test_channels_are_gated_in_place_in_both_layouts(
    handle: Handle, channels_last: bool, tmp_path: Path
) -> None:
    network = Network.from_torch(exported(Images().eval(), torch.randn(2, 3, 8, 8)))
    plan = network.compile(handle, on_miss="estimate", channels_last=channels_last)
    kinds = [kind for kind, _ in steps(plan) if kind != "copy"]
    assert kinds == ["conv", "binary", "conv"]
    check(plan, network, handle, tmp_path, 1e-4)


def test_on_gpus_halves_are_read_in_place_too(
    handle: Handle, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network.from_torch(exported(Gated("silu").eval(), torch.randn(2, 7, 24)))
    graph = network.optimized()
    as_gpu: Any = replace(handle.target, kind=DeviceKind.GPU)
    monkeypatch.setattr(type(handle), "target", as_gpu)
    laid_out = Posing("gated", handle).laid_out(graph, channels_last_where_possible(graph))
    assert sorted(place.start for place in laid_out.within.values()) == [0, 64]
