"""Attention in plans: one task where that was measured to be faster, and right on a device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from architectures_for_tests import Block
from networks_for_tests import exported
from plans_for_tests import compiled

from convfind.device.target import DeviceKind, Target
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.settings import Settings
from convfind.testing.mock_backend import MockDevice
from convfind_networks import Graph, Network, TensorType
from convfind_networks.ops import Attention, StridedView
from convfind_networks.passes import fuse_attention
from convfind_networks.plan import Plan
from convfind_networks.plan.posing import Posing

# PyTorch warns of itself while it exports.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

CUDA = Target(
    *("cuda", "a gpu", DeviceKind.GPU, "NVIDIA", "CUDA", "sm_90", 132, "1"),
    features=frozenset({"cublas", "nv-ptx", "fp64"}),
    max_work_group=1024,
)


@pytest.fixture(scope="module")
def block() -> Any:
    torch.manual_seed(1)
    return Block(64, 2)


@pytest.fixture(scope="module")
def graph(block: Any) -> Graph:
    return Network.from_torch(exported(block, torch.zeros(3, 11, 64))).optimized()


def kinds(plan: Plan) -> list[str]:
    """Return the kinds of a plan's problems."""
    return [task.problem.kind for task in plan.schedule.tasks]


@pytest.mark.slow
def test_a_block_is_as_pytorch_computes_it(
    handle: Handle, block: Any, graph: Graph, tmp_path: Path
) -> None:
    x = np.random.default_rng(1).standard_normal((3, 11, 64), np.float32)
    with torch.no_grad():
        right = block.double()(torch.from_numpy(x).double()).numpy()
    plan = compiled(handle, fuse_attention(graph, lambda op, types: True))
    assert kinds(plan).count("attention") == 1
    assert not {"matmul", "softmax", "transpose", "slice", "split"} & set(kinds(plan))
    (task,) = (one for one in plan.schedule.tasks if one.problem.kind == "attention")
    assert task.problem.starts == (("v", 64),)  # behind the keys, in memory of no other beginning:
    assert task.places["v"] == task.places["k"]  # many devices have no views that begin nearby
    plan.save(tmp_path / "plan")
    for one in (plan, Plan.load(tmp_path / "plan", handle)):
        (y,) = one.run({graph.inputs[0]: x}).values()
        np.testing.assert_allclose(y, right, atol=1e-5)


@pytest.mark.parametrize(("permitted", "allows"), [("Linear", False), ("MatMul", True)])
def test_products_of_attention_may_be_rounded_as_others_may(
    handle: Handle, graph: Graph, permitted: str, allows: bool
) -> None:
    plan = compiled(handle, fuse_attention(graph, lambda op, types: True), allow_tf32=[permitted])
    (task,) = (one for one in plan.schedule.tasks if one.problem.kind == "attention")
    assert task.problem.allow_tf32 is allows


def test_plans_for_cpus_have_one_task(handle: Handle, graph: Graph) -> None:
    assert "matmul" not in kinds(plan := compiled(handle, graph))
    assert kinds(plan).count("attention") == 1


@pytest.mark.parametrize(
    ("target", "dtype", "depth", "wanted"),
    [
        (CUDA, np.float16, 64, True),
        (CUDA, np.float16, 20, False),  # no pieces of 16 bytes: products by cuBLAS are faster
        (CUDA, np.float32, 20, True),
        (CUDA, np.float32, 18, False),
        (replace(CUDA, features=frozenset(), identity=""), np.float32, 64, True),
        (replace(CUDA, features=frozenset(), identity=""), np.float64, 64, False),
        (replace(CUDA, kind=DeviceKind.CPU, arch="znver4", identity=""), np.float32, 64, True),
        (replace(CUDA, kind=DeviceKind.CPU, arch="znver4", identity=""), np.float32, 257, False),
    ],
)
def test_one_task_is_wanted_where_it_was_measured_to_be_faster(
    handle: Handle, tmp_path: Path, target: Target, dtype: Any, depth: int, wanted: bool
) -> None:
    heads = StridedView((2, 3, 9, depth), (27 * depth, 9 * depth, depth, 1))
    op = Attention(heads.shape, heads, heads, heads, heads)
    kind = TensorType(np.dtype(dtype), heads.shape)
    settings = Settings(user_db_path=tmp_path)
    with handle_for(MockDevice(target), handle.registry, settings) as other:
        assert Posing("network", other).wants(op, (kind,) * 3) is wanted
