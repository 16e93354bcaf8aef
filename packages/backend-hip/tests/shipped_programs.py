"""What solvers launch in their default configurations, for layers of which each takes some."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch

from convfind.kernel_spec import Program
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.target import Target
from convfind.types import AccuracyClass, DataType, Direction, Layout

ARCHITECTURES = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030")
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
    Layer((16, 512, 7, 7), (512, 512, 3, 3), Layout.NHWC),
    Layer((16, 3, 56, 56), (64, 3, 3, 3), Layout.NHWC, solvers="winograd-*-narrow"),
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
                if solver.applicability(problem, target):
                    programs = solver.solution(problem, target).programs
                    found.setdefault(solver.solver_id, set()).update(programs)
    return found
