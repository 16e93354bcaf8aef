"""The launch that packs weights for NVIDIA's matrix units; on CPUs, but for its stores."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
import pytest
from devices_for_tests import H200
from numpy.typing import NDArray

from convfind.kit.blocks import TunableVariant
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage
from convfind.solver.recipe import Launch
from convfind.types import DataType, Direction, Layout
from convfind_solvers_igemm.nvidia.conv import MatrixConvSolver
from convfind_solvers_igemm.nvidia.form import Filter, geometry_of, products
from convfind_solvers_igemm.nvidia.tma import TmaConvSolver

pytest_plugins = ["convfind.testing.fixtures"]

EMULATED = """
#define CF_INLINED CF_INLINE
#define CF_STORE_4(pointer, from) \\
  do { \\
    for (int n = 0; n < 4; ++n) ((CF_GLOBAL CF_UINT *)(pointer))[n] = (from)[n]; \\
  } while (0)
#define GATHER_FLAT 2
#define GATHER_FLAT_PIECES 3
#define IS_FLAT (GATHER == GATHER_FLAT || GATHER == GATHER_FLAT_PIECES)
#define PAIR(first, second) ((first) >> 16 | ((second) & 0xffff0000u))
#define cf_tf32_nearest(bits) (((bits) & 0x7f800000u) == 0x7f800000u ? (bits) : cf_tf32_high(bits))
"""
INCLUDE = '#include "convfind_kernel.h"\n'
Words = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class PackAlone(KernelSource):
    """The file without PTX, and without the kernel that reads what it packs."""

    @property
    def text(self) -> str:
        headers = files("convfind").joinpath("kernel_include")
        nvidia = headers.joinpath("convfind_nvidia.h").read_text().partition(INCLUDE)[2]
        parts = re.findall(
            r"^CF_INLINED CF_UINT cf_tf32_(?:high|low)\b(?:.*?})$", nvidia, re.M | re.S
        )
        assert len(parts) == 2
        tile = headers.joinpath("convfind_nvidia_tile.h").read_text()
        _, kept, code = tile.partition("#define ROWS_BYTES")
        text = KernelSource(self.package, "kernels/nvidia_pack.cl").text
        for ptx, instead in (nvidia, EMULATED + "\n".join(parts) + "\n"), (kept + code, ""):
            assert text.count(ptx) == 1
            text = text.replace(ptx, instead)
        return text


def packed(device: Device, solver: TunableVariant, problem: ConvProblem, w: Words) -> Words:
    """Run the launch; what nothing was written to is full of ones."""
    solution = solver.solution(problem, H200)
    (launch,) = solution.prepare
    assert isinstance(launch, Launch)
    program = launch.kernel.program
    alone = PackAlone(program.source.package, "")
    program = replace(program, source=alone, language=KernelLanguage.SHARED, options=())
    launch = replace(launch, kernel=replace(launch.kernel, program=program))
    loaded = device.load(program, device.compile(program))
    result = np.full(solution.packed, 255, np.uint8)
    args = InvokeArgs(w=device.upload(w), packed=device.upload(result))
    device.invoker((launch,), {program: loaded})(args)
    device.synchronize()
    assert args.packed is not None
    device.read(args.packed, result)
    return result.view(w.dtype)


def rows_of(problem: ConvProblem, form: Filter, w: Words) -> Words:
    """A row for each channel of the result: taps, and in a tap the source's channels."""
    filters, channels, *window = problem.w_shape
    taps = math.prod(window)
    if problem.w_layout.channels_last:
        values = w.reshape(filters, taps, channels)
    else:
        values = w.reshape(filters, channels, taps).transpose(0, 2, 1)
    if problem.direction is Direction.BACKWARD_DATA:
        by_group = values.reshape(problem.groups, -1, taps, channels).transpose(0, 3, 2, 1)
        values = by_group.reshape(problem.groups * channels, taps, -1)
    found = np.zeros((form.rows, form.row), w.dtype)
    for tap in range(taps):
        first = tap * form.tap
        found[:, first : first + values.shape[2]] = values[:, tap]
    return found


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = [
    ((2, 40, 9, 9), (70, 40, 3, 3), {"padding": 1}),  # tiles that are not full
    ((1, 128, 5, 5), (64, 128, 1, 1), {}),
    ((1, 24, 7, 7), (144, 12, 3, 2), {"groups": 2}),
    ((1, 6, 9, 9), (10, 6, 3, 3), {}),  # channels and taps are one axis
    ((1, 68, 9, 9), (130, 68, 5, 5), {"stride": 2}),  # phases
]
KINDS: dict[str, dict[str, object]] = {
    "float32": {},
    "tf32": {"allow_tf32": True},
    "float16": {"dtype": DataType.FLOAT16, "y_dtype": DataType.FLOAT16},
}


def problems(solver: MatrixConvSolver, kind: str) -> list[ConvProblem]:
    """Those whose weights are packed."""
    layout = Layout.of(2, channels_last=solver.channels_last)
    given = [
        ConvProblem.create(solver.direction, x, w, layout=layout, **KINDS[kind], **options)  # type: ignore[arg-type]
        for x, w, options in CASES
    ]
    taken = [problem for problem in given if solver.takes(problem, H200)]
    return [p for p in taken if Filter(p, geometry_of(p)).packed_bytes]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("direction", "channels_last"),
    [
        (Direction.FORWARD, False),
        (Direction.FORWARD, True),
        (Direction.BACKWARD_DATA, False),
        (Direction.BACKWARD_DATA, True),
    ],
)
def test_weights_are_where_the_kernel_reads_them(
    direction: Direction, channels_last: bool, kind: str, convfind_device: Device
) -> None:
    solver = MatrixConvSolver(direction, channels_last=channels_last, fixed=False)
    given = problems(solver, kind)
    assert given or (kind == "float16" and not channels_last)
    for problem in given:
        numbers = np.random.default_rng(0).standard_normal(math.prod(problem.w_shape), np.float32)
        words: Words = numbers.view(np.uint32)
        if kind == "float16":
            words = numbers.astype(np.float16).view(np.uint16)
        form = Filter(problem, geometry_of(problem))
        wanted = rows_of(problem, form, words)
        found = packed(convfind_device, solver, problem, words)
        if not form.is_split:
            if kind == "tf32":  # to the nearest number of 10 bits behind the first
                wanted = (wanted + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
            assert (found.reshape(wanted.shape) == wanted).all(), problem
            continue
        parts = found.view(np.float32).reshape(form.rows, -1, 2, 32)
        exact = wanted.view(np.float32).reshape(form.rows, -1, 32)
        assert (np.abs(parts[:, :, 0] - exact) <= 2.0**-11 * np.abs(exact)).all(), problem
        if products(problem) == 3:
            assert (parts[:, :, 0] + parts[:, :, 1] == exact).all(), problem


@pytest.mark.parametrize("kind", ["tf32", "float16"])
def test_what_is_fetched_by_maps_is_packed_with_channels_inside(
    kind: str, convfind_device: Device
) -> None:
    solver = TmaConvSolver(Direction.BACKWARD_DATA)
    for x, w in (((2, 8, 17, 19), (24, 8, 5, 5)), ((1, 136, 9, 9), (72, 136, 3, 3))):
        problem = ConvProblem.create(solver.direction, x, w, layout="NHWC", **KINDS[kind])  # type: ignore[arg-type]
        numbers = np.random.default_rng(0).standard_normal(math.prod(w), np.float32)
        words: Words = numbers.view(np.uint32)
        if kind == "float16":
            words = numbers.astype(np.float16).view(np.uint16)
        form = Filter(problem, geometry_of(problem), by_maps=True)
        wanted = rows_of(problem, form, words)
        found = packed(convfind_device, solver, problem, words)
        if kind == "tf32":
            wanted = (wanted + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        assert (found.reshape(wanted.shape) == wanted).all(), problem
