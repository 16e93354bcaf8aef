"""Attention by NVIDIA's matrix units is right: on CPUs, which emulate them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from emulated_units import COMPILER, EmulatedUnits

from convfind.device.target import DeviceKind, Target
from convfind_operators import AttentionProblem
from convfind_operators.nvidia_attention_solver import NvidiaAttentionSolver, WgmmaAttentionSolver
from convfind_operators.testing import check_operator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="needs a compiler of C++"),
]

CUDA = Target(
    *("cuda", "a gpu", DeviceKind.GPU, "NVIDIA", "CUDA", "sm_90", 132, "1"),
    features=frozenset({"cublas", "nv-ptx", "fp64"}),
    max_work_group=1024,
)
MATRIX, WGMMA = NvidiaAttentionSolver(AttentionProblem), WgmmaAttentionSolver(AttentionProblem)


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return EmulatedUnits(CUDA, tmp_path_factory.mktemp("kernels"))


def attention(queries: int, keys: int, depth: int, dtype: str, **how: Any) -> AttentionProblem:
    """Return a problem of one sequence, if not of more."""
    batch = how.pop("batch", 1)
    shapes = {"q": (batch, 1, queries, depth), "k": (batch, 1, keys, depth)}
    return AttentionProblem(**{**shapes, "v": (batch, 1, keys, depth), "dtype": dtype, **how})


@pytest.mark.parametrize("allow_tf32", [False, True])
def test_floats_are_right(units: Any, allow_tf32: bool) -> None:
    problem = attention(17, 70, 12, "float32", q=(1, 2, 17, 12), v=(1, 1, 70, 20))
    assert not check_operator(replace(problem, allow_tf32=allow_tf32), units, MATRIX)


@pytest.mark.parametrize("allow_tf32", [False, True])
def test_deep_floats_behind_a_mask_are_right(units: Any, allow_tf32: bool) -> None:
    mask = {"mask": (2, 1, 5, 40), "batch": 4, "scale": -0.3}
    problem = attention(5, 40, 68, "float32", allow_tf32=allow_tf32, **mask)
    assert not check_operator(problem, units, MATRIX, not_finite=False)
    causal = attention(70, 33, 40, "float32", allow_tf32=allow_tf32, causal=True)
    assert not check_operator(causal, units, MATRIX, not_finite=False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("depth", [24, 160, 256])
def test_types_of_16_bits_are_right(units: Any, dtype: str, depth: int) -> None:
    assert not check_operator(attention(70, 67, depth, dtype), units, MATRIX)


def test_long_values_of_short_keys_behind_a_mask_are_right(units: Any) -> None:
    mask = {"mask": (1, 1, 37, 90), "causal": True, "v": (1, 1, 90, 200)}
    problem = attention(37, 90, 40, "float16", **mask)
    assert not check_operator(problem, units, MATRIX, not_finite=False)


@pytest.mark.parametrize(
    "problem",
    [
        attention(515, 530, 64, "float16", q=(1, 2, 515, 64)),
        attention(520, 700, 72, "bfloat16", v=(1, 1, 700, 80)),
        attention(700, 600, 128, "float16", causal=True),
        attention(1030, 520, 64, "float16", causal=True),
    ],
    ids=lambda problem: f"{problem.queries}x{problem.keys}",
)
def test_ends_of_long_sequences_are_right(units: Any, problem: AttentionProblem) -> None:
    assert not check_operator(problem, units, WGMMA, not_finite=False)
