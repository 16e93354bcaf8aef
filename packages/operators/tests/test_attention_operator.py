"""Attention is right: any lengths, layouts, masks and types, and each device gets its kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from convfind.device.target import DeviceKind, Target
from convfind.errors import NoSolverError, ProblemError
from convfind.kit.register_limit import OPTION
from convfind.runtime.backend import Device
from convfind.solver.recipe import Launch, ScalarArg
from convfind_operators import AttentionProblem, ElementType
from convfind_operators.attention_solver import AttentionSolver
from convfind_operators.cpu_attention_solver import CpuAttentionSolver
from convfind_operators.nvidia_attention_solver import (
    Blocks,
    NvidiaAttentionSolver,
    WgmmaAttentionSolver,
)
from convfind_operators.solver_list import solver_of

torch = pytest.importorskip("torch")

Check = Callable[..., None]

PLAIN, MATRIX = AttentionSolver(AttentionProblem), NvidiaAttentionSolver(AttentionProblem)
WGMMA = WgmmaAttentionSolver(AttentionProblem)
CPU = CpuAttentionSolver(AttentionProblem)
CUDA = Target(
    *("cuda", "a gpu", DeviceKind.GPU, "NVIDIA", "CUDA", "sm_90", 132, "1"),
    features=frozenset({"cublas", "nv-ptx", "fp64"}),
    max_work_group=1024,
)


@pytest.fixture
def gpu(check: Check, convfind_device: Device) -> Check:
    """Give the check on a GPU: its kernels for this are run by threads elsewhere."""
    if convfind_device.target.kind is not DeviceKind.GPU:
        pytest.skip("needs a GPU; see test_attention_units")
    return check


def attention(
    *, heads: int = 2, queries: int = 5, keys: int = 7, depth: int = 8, **how: Any
) -> AttentionProblem:
    """Return a problem of two sequences, if not of more."""
    shared, values = how.pop("shared", 1), how.pop("values", depth)
    batch = how.pop("batch", 2)
    return AttentionProblem(
        q=(batch, heads, queries, depth),
        k=(batch, heads // shared, keys, depth),
        v=(batch, heads // shared, keys, values),
        **how,
    )


def within(heads: int, length: int, depth: int, parts: int = 1) -> tuple[int, ...]:
    """Return the strides of heads that are neighbours in each element of a sequence."""
    width = parts * heads * depth
    return (length * width, depth, width, 1)


def by_torch(problem: AttentionProblem, inputs: dict[str, Any]) -> Any:
    """Return what PyTorch computes in float64."""
    q, k, v = (torch.from_numpy(inputs[name].astype(np.float64)) for name in ("q", "k", "v"))
    mask = inputs.get("mask")
    if mask is not None:
        mask = torch.from_numpy(mask if mask.dtype == np.bool_ else mask.astype(np.float64))
        mask = mask.tile(problem.batch // len(mask), 1, 1, 1)
    return torch.nn.functional.scaled_dot_product_attention(
        *(q, k, v, mask),
        is_causal=problem.causal,
        scale=problem.factor,
        enable_gqa=True,
    ).numpy()


CASES = {
    "plain": attention(queries=9, keys=9),
    "causal": attention(queries=9, keys=9, causal=True),
    "scaled": attention(scale=0.7),
    "shared": attention(heads=6, shared=3),
    "shown": attention(mask=(2, 1, 5, 7), mask_dtype="bool", zeros=True),
    "biased": attention(mask=(1, 2, 5, 7)),
    "windows": attention(batch=6, mask=(3, 2, 5, 7)),
}


@pytest.mark.parametrize("problem", CASES.values(), ids=CASES)
def test_the_reference_is_what_pytorch_computes(problem: AttentionProblem) -> None:
    inputs = problem.draw(np.random.default_rng(1))
    if problem.mask_dtype is ElementType.BOOL:
        inputs["mask"] = inputs["mask"].astype(np.bool_)
        inputs["mask"][0, 0, 3] = False  # a query that sees nothing
    wide = {
        name: one if one.dtype == np.bool_ else one.astype(np.float64)
        for name, one in inputs.items()
    }
    with np.errstate(invalid="ignore"):
        found = problem.reference(wide)["y"]
    np.testing.assert_allclose(found, by_torch(problem, inputs), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("keys", "depth"), [(0, 8), (7, 0)])
def test_the_reference_of_nothing_is_what_pytorch_computes(keys: int, depth: int) -> None:
    problem = attention(keys=keys, depth=depth, values=3)
    inputs = problem.draw(np.random.default_rng(1))
    assert problem.factor == (1 if not depth else 1 / math.sqrt(depth))
    wide = {name: one.astype(np.float64) for name, one in inputs.items()}
    results = problem.reference(wide)
    np.testing.assert_allclose(results["y"], by_torch(problem, inputs), rtol=1e-12)
    assert np.isfinite(problem.allowed_error(wide, results)["y"]).all()


def test_weights_that_float16_rounds_to_zero_lose_infinities() -> None:
    # The second key has a weight of e to the power of -30, the third one of -10.
    inputs = {
        "q": np.full((1, 1, 1, 1), 10.0),
        "k": np.array([0.0, -3.0, -1.0]).reshape(1, 1, 3, 1),
        "v": np.array([[1, 1, 1], [1, np.inf, 1], [1, 1, np.inf]]).reshape(1, 1, 3, 3),
    }
    for dtype, lost in (("float16", True), ("bfloat16", False), ("float32", False)):
        how: dict[str, Any] = {"batch": 1, "heads": 1, "scale": 1.0, "dtype": dtype}
        problem = attention(queries=1, keys=3, depth=1, values=3, **how)
        results = problem.reference(inputs)
        allowed = problem.allowed_error(inputs, results)["y"]
        assert np.isinf(results["y"]).ravel().tolist() == [False, True, True]
        assert np.isnan(allowed).ravel().tolist() == [False, lost, False]


@pytest.mark.parametrize(
    ("queries", "keys", "depth", "values"),
    [(64, 64, 64, 64), (1, 1, 1, 1), (65, 130, 72, 40), (3, 100, 17, 129), (130, 3, 128, 256)],
)
def test_any_lengths_are_right(
    check: Check, queries: int, keys: int, depth: int, values: int
) -> None:
    check(attention(queries=queries, keys=keys, depth=depth, values=values))


@pytest.mark.parametrize(
    ("queries", "keys", "depth", "values", "causal"),
    [(515, 530, 64, 64, False), (1030, 700, 64, 56, True), (600, 1100, 80, 128, True)],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_sequences_are_right(
    gpu: Check, queries: int, keys: int, depth: int, values: int, causal: bool, dtype: str
) -> None:
    how: dict[str, Any] = {"batch": 1, "values": values, "causal": causal, "dtype": dtype}
    gpu(attention(queries=queries, keys=keys, depth=depth, **how), not_finite=not causal)


@pytest.mark.parametrize("allow_tf32", [False, True])
@pytest.mark.parametrize(("length", "depth"), [(90, 128), (70, 24)])
def test_floats_are_right(check: Check, length: int, depth: int, allow_tf32: bool) -> None:
    how: dict[str, Any] = {"batch": 3, "values": 36, "allow_tf32": allow_tf32}
    check(attention(queries=length, keys=length, depth=depth, **how))


@pytest.mark.parametrize("allow_tf32", [False, True])
def test_floats_of_a_batch_that_fills_the_device_are_right(gpu: Check, allow_tf32: bool) -> None:
    how: dict[str, Any] = {"batch": 40, "values": 36, "allow_tf32": allow_tf32}
    gpu(attention(queries=150, keys=150, depth=64, **how))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_types_and_heads_that_share_keys_are_right(check: Check, dtype: str) -> None:
    check(attention(heads=6, queries=9, keys=70, shared=3, dtype=dtype, scale=-0.3))


@pytest.mark.parametrize("queries", [70, 130])
def test_queries_that_see_what_is_before_them_are_right(check: Check, queries: int) -> None:
    # Keys that nobody sees may be skipped, with what is not finite about them.
    check(attention(queries=queries, keys=100, depth=16, causal=True), not_finite=False)


@pytest.mark.parametrize(
    ("mask", "mask_dtype"),
    [
        ((1, 1, 20, 70), "bool"),
        ((2, 1, 1, 70), "bool"),
        ((2, 2, 20, 70), "float32"),
        ((1, 2, 20, 1), "float16"),
        ((1, 1, 1, 70), "bfloat16"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_masks_are_right(check: Check, mask: Any, mask_dtype: str, dtype: str) -> None:
    check(attention(queries=20, keys=70, dtype=dtype, mask=mask, mask_dtype=mask_dtype, zeros=True))


def test_masks_of_some_sequences_are_those_of_the_next_ones_too(check: Check) -> None:
    check(attention(batch=6, queries=9, keys=20, mask=(3, 2, 9, 20)))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("mask_dtype", ["bool", "float32"])
def test_queries_that_see_nothing_are_nan_or_zero(
    check: Check, mask_dtype: str, zeros: bool
) -> None:
    problem = attention(
        queries=20, keys=70, mask=(1, 1, 20, 70), mask_dtype=mask_dtype, zeros=zeros
    )
    inputs = problem.draw(np.random.default_rng(2))
    shown = np.ones((1, 1, 20, 70), np.bool_)
    shown[..., 3, :] = False
    shown[..., 7, :65] = False  # nothing of the first tile
    inputs["mask"] = shown if mask_dtype == "bool" else np.where(shown, 0, -np.inf)
    inputs["mask"] = inputs["mask"].astype(problem.operand("mask").dtype.numpy)
    check(problem, inputs=inputs, not_finite=False)


def test_heads_lie_anywhere(check: Check) -> None:
    joint = {name: within(2, 20, 16, parts=3) for name in ("q", "k", "v")}
    starts = {"k": 32, "v": 64}
    check(
        attention(
            queries=20, keys=20, depth=16, strides={**joint, "y": within(2, 20, 16)}, starts=starts
        )
    )
    check(attention(queries=9, keys=70, depth=8, strides={"k": (1120, 560, 1, 70)}))


def test_elements_and_masks_of_any_distance_are_right(check: Check) -> None:
    queries, keys, depth = 9, 70, 40
    turned = {
        name: (2 * length * depth, length * depth, 1, length)
        for name, length in (("q", queries), ("k", keys), ("v", keys), ("y", queries))
    }
    every_second = {"mask": (2 * queries * keys, 1, 2 * keys, 2)}
    sizes = {"queries": queries, "keys": keys, "depth": depth}
    check(attention(**sizes, mask=(1, 2, queries, keys), strides={**turned, **every_second}))


def test_scores_of_any_size_are_right(check: Check) -> None:
    problem = attention(queries=9, keys=130, depth=8, scale=30.0)
    inputs = problem.draw(np.random.default_rng(3))
    inputs["k"][:, :, 100:] *= 9  # what was summed up becomes nothing beside them
    check(problem, inputs=inputs)


def drawn(rng: np.random.Generator) -> AttentionProblem:
    """Return a problem of random sizes, layouts and masks."""
    shared = int(rng.integers(1, 3))
    heads, (queries, keys) = shared * int(rng.integers(1, 4)), rng.integers(1, 140, 2).tolist()
    depth, values = rng.integers(1, 80, 2).tolist()
    sizes = zip((2, heads, queries, keys), rng.integers(0, 2, 4), strict=True)
    mask = tuple(size if is_whole else 1 for size, is_whole in sizes)
    masks = {"mask": mask, "mask_dtype": str(rng.choice(["bool", "float32"])), "zeros": True}
    layouts = {
        "q": within(heads, queries, depth, int(rng.integers(1, 4))),
        "v": within(heads // shared, keys, values),
    }
    return attention(
        heads=heads,
        queries=queries,
        keys=keys,
        depth=depth,
        values=values,
        shared=shared,
        dtype=str(rng.choice(["float32", "float16", "bfloat16"])),
        strides=layouts if rng.integers(2) else {},
        **(masks if rng.integers(2) else {"causal": bool(rng.integers(2))}),
    )


@pytest.mark.parametrize("seed", range(6))
def test_drawn_problems_are_right(check: Check, seed: int) -> None:
    problem = drawn(np.random.default_rng(seed))
    check(problem, seed=seed, not_finite=not problem.causal)


# -- which kernel -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_matrix_units_take_whole_pieces(dtype: str) -> None:
    def taken(**how: Any) -> bool:
        return solver_of(attention(dtype=dtype, **how), CUDA).solver_id == MATRIX.solver_id

    assert taken()
    assert taken(depth=128, values=40, strides={"q": (5 * 768, 128, 768, 1)})
    assert taken(starts={"k": 24})
    assert not taken(starts={"k": 2})
    assert taken(starts={"k": 4}) is taken(depth=20) is (dtype == "float32")
    assert not taken(depth=18)
    assert taken(depth=136) is taken(values=256) is (dtype != "float32")
    assert not taken(depth=264, values=8)
    assert not taken(values=2)
    assert not taken(strides={"k": (112, 56, 1, 7)})
    assert not taken(strides={"y": (82, 40, 8, 1)})


def test_other_devices_and_types_have_the_plain_kernel() -> None:
    older = replace(CUDA, arch="sm_75", identity="")
    other = replace(CUDA, backend="hip", arch="gfx90a", features=frozenset(), identity="")
    assert solver_of(attention(depth=7), CUDA).solver_id == PLAIN.solver_id
    for target in (older, other):
        assert solver_of(attention(dtype="float16"), target).solver_id == PLAIN.solver_id
    with pytest.raises(NoSolverError, match="float32"):
        solver_of(attention(dtype="float64"), CUDA)
    with pytest.raises(NoSolverError, match="257"):
        solver_of(attention(values=257), CUDA)
    with pytest.raises(NoSolverError, match="nothing to see"):
        solver_of(attention(keys=0), CUDA)


def test_a_solver_says_how_fast_it_is_where_steps_were_slower() -> None:
    narrow, wide = attention(dtype="float16"), attention()
    assert MATRIX.wti(narrow, CUDA)
    assert PLAIN.wti(wide, replace(CUDA, features=frozenset(), identity=""))
    assert PLAIN.wti(wide, CUDA) is None
    cpu = replace(CUDA, kind=DeviceKind.CPU, identity="")
    assert PLAIN.wti(wide, cpu) is None
    assert CPU.wti(wide, cpu)


def test_cpus_have_a_kernel_of_their_own() -> None:
    cpu = Target(*("opencl", "a cpu", DeviceKind.CPU, "Intel", "OpenCL", "cpu-avx2", 2, "1"))
    cpu = replace(cpu, max_work_group=1024, identity="")
    for how in ({}, {"dtype": "bfloat16"}, {"depth": 200, "values": 256}, {"queries": 1}):
        assert solver_of(attention(**how), cpu).solver_id == CPU.solver_id
    with pytest.raises(NoSolverError, match="float32"):
        solver_of(attention(dtype="float64"), cpu)
    assert not CPU.takes(attention(values=257), cpu)
    assert not CPU.takes(attention(keys=0), cpu)
    assert not CPU.takes(attention(), CUDA)


@pytest.mark.parametrize("cores", [1, 2, 7, 64])
@pytest.mark.parametrize(
    ("heads", "queries", "keys", "depth"),
    [(6, 1500, 1500, 64), (3, 197, 197, 64), (2, 49, 49, 32), (1, 5, 700, 128), (2, 300, 9, 200)],
)
def test_work_items_of_cpus_cover_the_queries_and_have_room_for_them(
    heads: int, queries: int, keys: int, depth: int, cores: int
) -> None:
    cpu = Target(*("opencl", "a cpu", DeviceKind.CPU, "Intel", "OpenCL", "cpu-avx2", cores, "1"))
    problem = attention(heads=heads, queries=queries, keys=keys, depth=depth)
    (launch,) = CPU.solution(problem, cpu).steps
    assert isinstance(launch, Launch)
    macros = dict(launch.kernel.program.defines)
    share, block = (int(one.value) for one in launch.arguments[-2:] if isinstance(one, ScalarArg))
    assert launch.global_size == (2 * heads * math.ceil(queries / share),)
    assert share <= int(macros["QUERIES"])
    assert share % int(macros["ROWS"]) == int(macros["QUERIES"]) % int(macros["ROWS"]) == 0
    assert block <= int(macros["KEYS"])
    assert block % 16 == int(macros["KEYS"]) % 16 == 0
    assert int(macros["DEPTH"]) >= depth


@pytest.mark.parametrize(
    ("queries", "keys", "depth", "values"),
    [(97, 130, 64, 64), (6, 257, 33, 48), (193, 16, 72, 100), (50, 129, 130, 17)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_blocks_of_cpus_are_right(
    check: Check, queries: int, keys: int, depth: int, values: int, causal: bool
) -> None:
    how: dict[str, Any] = {"values": values, "causal": causal, "shared": 2}
    check(attention(queries=queries, keys=keys, depth=depth, **how), not_finite=not causal)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("queries", "depth"), [(49, 32), (197, 64), (2048, 64), (197, 128), (2048, 128), (256, 160)]
)
def test_work_groups_cover_the_queries_of_all_heads(queries: int, depth: int, dtype: str) -> None:
    problem = attention(heads=3, queries=queries, keys=queries, depth=depth, dtype=dtype)
    if not MATRIX.applicability(problem, CUDA):
        assert (dtype, depth) == ("float32", 160)
        return
    (launch,) = MATRIX.solution(problem, CUDA).steps
    assert isinstance(launch, Launch)
    macros = dict(launch.kernel.program.defines)
    rows = 16 * int(macros["WAVES"]) * int(macros["FRAGMENTS"])
    assert launch.local_size == (32 * int(macros["WAVES"]),)
    assert launch.global_size[0] // launch.local_size[0] == 2 * 3 * math.ceil(queries / rows)


@pytest.mark.parametrize(
    ("dtype", "depth"),
    [*product(("float16", "float32"), (32, 64, 128)), *product(("bfloat16",), (136, 192, 256))],
)
def test_local_memory_is_what_compilers_grant(dtype: str, depth: int) -> None:
    problem = attention(batch=60, queries=600, depth=depth, dtype=dtype)
    opencl = replace(CUDA, backend="opencl", identity="")
    for target in (CUDA, opencl, replace(CUDA, arch="sm_80", identity="")):
        blocks = Blocks.of(problem, target)
        row = 128 * math.ceil(problem.dtype.size * depth / 128)
        tile = 2 * blocks.keys * row
        size = tile + max(tile, blocks.rows * row)
        assert size <= 48 << 10 or (target is CUDA and size <= 96 << 10)


def test_long_sequences_have_the_kernel_of_hopper() -> None:
    def taken(target: Target = CUDA, **how: Any) -> bool:
        sizes = {"queries": 600, "keys": 700, "depth": 64, "dtype": "float16", **how}
        return solver_of(attention(**sizes), target).solver_id == WGMMA.solver_id

    assert taken()
    assert taken(dtype="bfloat16", depth=128, values=40, causal=True)
    assert not taken(dtype="float32")
    assert not taken(queries=511)
    assert not taken(keys=511)
    assert not taken(depth=32)
    assert not taken(scale=-1.0)
    assert not taken(mask=(1, 1, 1, 700))
    assert not taken(starts={"k": 4})
    assert not taken(replace(CUDA, arch="sm_100", identity=""))
    assert not taken(replace(CUDA, backend="opencl", identity=""))


@pytest.mark.parametrize(
    ("queries", "depth", "rows"), [(600, 64, 128), (2048, 64, 192), (2048, 96, 128)]
)
def test_groups_of_waves_cover_the_queries_of_all_heads(
    queries: int, depth: int, rows: int
) -> None:
    problem = attention(heads=3, queries=queries, keys=queries, depth=depth, dtype="float16")
    (launch,) = WGMMA.solution(problem, CUDA).steps
    assert isinstance(launch, Launch)
    assert launch.local_size == (2 * rows + 128,)
    assert launch.global_size[0] // launch.local_size[0] == 2 * 3 * math.ceil(queries / rows)
    # Registers of a unit, of which those that only copy give some to the others.
    (most,) = (one for one in launch.kernel.program.options if one.startswith(OPTION))
    given = 40 + 2 * 232 if rows == 128 else 32 + 3 * 160
    assert given <= (rows // 64 + 1) * int(most.removeprefix(OPTION)) <= 512


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"q": (2, 5, 8)}, "q"),
        ({"k": (2, 3, 7, 8)}, "k"),
        ({"k": (2, 2, 7, 9)}, "k"),
        ({"v": (2, 2, 6, 8)}, "v"),
        ({"mask": (5, 7)}, "mask"),
        ({"mask": (2, 2, 5, 6)}, "mask"),
        ({"mask": (3, 2, 5, 7)}, "mask"),
        ({"mask": (0, 2, 5, 7)}, "mask"),
        ({"mask": (1, 1, 5, 7), "mask_dtype": "int32"}, "mask_dtype"),
        ({"dtype": "int32"}, "dtype"),
        ({"starts": {"y": 8}}, "starts"),
        ({"starts": {"k": -8}}, "starts"),
        ({"scale": "x"}, "scale: 'x' is not possible; allowed: a number"),
        ({"q": 3}, "q: 3 is not possible; allowed: whole numbers"),
    ],
)
def test_impossible_problems_are_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ProblemError, match=named):
        replace(attention(), **fields)
