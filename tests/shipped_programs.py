"""What solvers launch in their default configurations, for layers of which each takes some."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import product
from typing import Any

import pytest

from convfind.device.target import Target
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.problem.activation import Activation
from convfind.solver.kernel_spec import Program
from convfind.types import AccuracyClass, DataType, Direction, Layout

AMD_ARCHITECTURES = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030")
NVIDIA_ARCHITECTURES = ("sm_80", "sm_90")
#: In the names of macros: multiplying with instructions that some architectures have.
_OWN = re.compile("MFMA|DP4A")
FLOAT32, FLOAT16, BFLOAT16, INT8 = (
    *(DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT8),
)


@dataclass(frozen=True, slots=True)
class Layer:
    """A forward problem, taken in all directions that its type has, and the solvers to try on it.

    Of the implicit GEMM, which takes everything, the first layers show all that there is.
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    layout: Layout = Layout.NCHW
    dtype: DataType = FLOAT32
    stride: int = 1
    groups: int = 1
    accuracy: AccuracyClass = AccuracyClass.NORMAL
    solvers: str = "*"

    @property
    def problems(self) -> tuple[ConvProblem, ...]:
        problem = ConvProblem.forward(
            *(self.x, self.w),
            stride=self.stride,
            padding=self.w[2] // 2,
            groups=self.groups,
            layout=self.layout,
            dtype=self.dtype,
            accuracy=self.accuracy,
        )
        ways = Direction if self.dtype.is_float else (Direction.FORWARD,)
        return tuple(problem.with_direction(way) for way in ways)


LAYERS = (
    Layer((16, 64, 56, 56), (64, 64, 3, 3)),
    Layer((16, 256, 56, 56), (64, 256, 1, 1)),
    Layer((16, 3, 224, 224), (64, 3, 7, 7), stride=2),
    Layer((16, 3, 224, 224), (64, 3, 7, 7), Layout.NHWC, stride=2, solvers="direct*"),
    Layer((16, 3, 35, 35), (96, 3, 4, 4), Layout.NHWC, stride=4, solvers="direct-gpu-first-*"),
    Layer((16, 512, 7, 7), (512, 512, 3, 3), Layout.NHWC),
    Layer((16, 3, 56, 56), (64, 3, 3, 3), Layout.NHWC, solvers="winograd-*-narrow"),
    Layer((16, 64, 14, 14), (64, 1, 7, 7), groups=64, solvers="direct-gpu-bands*"),
    Layer((16, 64, 28, 28), (64, 1, 7, 7), groups=64, solvers="direct-nvidia-stages-*"),
    Layer(
        *((16, 64, 28, 28), (64, 8, 3, 3), Layout.NHWC),
        groups=8,
        solvers="direct-nvidia-groups-*",
    ),
    Layer((16, 64, 28, 28), (64, 1, 5, 5), stride=2, groups=64, solvers="direct-gpu-up*"),
    Layer((16, 120, 1, 1), (480, 120, 1, 1), solvers="direct-gpu-dots-fwd"),
    Layer((16, 64, 28, 28), (64, 1, 5, 5), Layout.NHWC, FLOAT16, 2, 64, solvers="direct-gpu-[nt]*"),
    Layer(
        (16, 64, 28, 28), (64, 1, 3, 3), Layout.NHWC, BFLOAT16, 1, 64, solvers="direct-gpu-[nt]*"
    ),
    Layer((4, 320, 64, 64), (4, 320, 3, 3), solvers="direct-gpu-last-*-fwd"),
    Layer((8, 32, 256, 256), (3, 32, 9, 9), solvers="direct-gpu-last-*-fwd"),
    Layer((16, 1, 224, 224), (64, 1, 9, 9), solvers="direct-gpu-last-*-bwd-data"),
    Layer((16, 3, 224, 224), (64, 3, 3, 3), solvers="direct-gpu-last-*-bwd-data"),
    Layer((16, 128, 56, 56), (128, 128, 3, 3), dtype=FLOAT16, stride=2),
    Layer((16, 256, 14, 14), (64, 256, 1, 1), Layout.NHWC, BFLOAT16),
    *(
        layer
        for layout in (Layout.NCHW, Layout.NHWC)
        for layer in (
            Layer((16, 64, 56, 56), (64, 64, 3, 3), layout, INT8),
            Layer((16, 64, 28, 28), (64, 1, 3, 3), layout, groups=64, solvers="[dw]*"),
            Layer((16, 64, 28, 28), (64, 1, 9, 9), layout, groups=64, solvers="direct-gpu-n*-fwd"),
            Layer((8, 64, 56, 56), (64, 1, 31, 31), layout, groups=64, solvers="fft*"),
            Layer((8, 32, 28, 28), (32, 32, 11, 11), layout, solvers="fft*"),
            Layer(
                *((16, 64, 56, 56), (64, 64, 3, 3), layout),
                accuracy=AccuracyClass.RELAXED,
                solvers="winograd*",
            ),
            Layer(
                *((16, 64, 28, 28), (64, 64, 5, 5), layout),
                accuracy=AccuracyClass.RELAXED,
                solvers="winograd-f[45]x[45]-*",
            ),
            Layer((16, 64, 17, 17), (64, 64, 1, 7), layout, solvers="winograd-f4x7-1d-gpu-*"),
        )
    ),
)


def programs_of(target: Target) -> dict[str, set[Program]]:
    """Return what solvers launch in their default configurations, by the solvers that take any."""
    found: dict[str, set[Program]] = {}
    for solver in default_registry().solvers_for(target)[0]:
        for layer in LAYERS:
            if not fnmatch(solver.solver_id, layer.solvers):
                continue
            for problem in layer.problems:
                if solver.takes(problem, target):
                    programs = solver.solution(problem, target).programs
                    found.setdefault(solver.solver_id, set()).update(programs)
    return found


def shared_out(
    launched: Mapping[str, Collection[Program]], telling: Collection[str]
) -> dict[str, set[Program]]:
    """Give each program to one of the architectures that launch it, and each kind to all of those.

    What an architecture changes, the size of waves and the instructions, it changes in every
    program of a kind. A kind without instructions of its own goes to the ``telling`` architectures
    only: a kernel that does without too many registers there does so everywhere. The same answer in
    every process.
    """
    ordered = sorted(set().union(*launched.values()), key=lambda program: program.key(""))
    shares: dict[str, set[Program]] = {arch: set() for arch in launched}
    given: Counter[tuple[str, Hashable]] = Counter()

    def give(program: Program, arch: str) -> None:
        shares[arch].add(program)
        given[arch, kind_of(program)] += 1

    for program in ordered:
        takers = [arch for arch in launched if program in launched[arch]]
        kind = kind_of(program)
        give(program, min(takers, key=lambda arch: (given[arch, kind], len(shares[arch]))))
    for arch, program in product(launched, ordered):
        is_due = arch in telling or has_own_instructions(program)
        if is_due and program in launched[arch] and not given[arch, kind_of(program)]:
            give(program, arch)
    return shares


def has_own_instructions(program: Program) -> bool:
    """Say whether a program multiplies with instructions that not all architectures have."""
    return any(value and _OWN.search(name) for name, value in program.defines)


def kind_of(program: Program) -> Hashable:
    """A source with what decides about its instructions."""
    macros = (m for m in program.defines if "TYPE" in m[0] or _OWN.search(m[0]))
    return (program.source, *macros)


def operators_programs(target: Target) -> set[Program]:
    """Return the programs of some operators: norms shared by work-groups, embeddings, gates."""
    operators: Any = pytest.importorskip("convfind_operators")
    image, heads, gated = (2, 320, 64, 64), (1, 512, 16, 128), (2, 4096, 1280)
    narrow: dict[str, Any] = {"dtype": "float16"}
    silu = {"activation": Activation("silu")}
    norm, factors = {"groups": 32, **silu}, {"cos": (512, 1, 128), "sin": (512, 1, 128)}
    problems = (
        operators.GroupNormProblem(x=image, channels_last=True, **norm, **narrow),
        operators.GroupNormProblem(x=(2, 12, 130, 130), groups=3, channels_last=True),
        operators.RotaryProblem(x=heads, **factors, **narrow),
        operators.BinaryProblem(a=gated, b=gated, function="mul", **silu, activates="a"),
    )
    solved = (operators.solver_of(one, target).solution(one, target) for one in problems)
    return {program for recipe in solved for program in recipe.programs}
