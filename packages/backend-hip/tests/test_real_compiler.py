"""Every shared kernel in its default configurations, compiled by the hiprtc that is installed.

A representative set of problems: `benchmarks/hip_code_objects.py` takes any.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch

import pytest

from convfind.errors import KernelBuildError
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import Program
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.target import Target
from convfind.types import AccuracyClass, DataType, Direction, Layout
from convfind_backend_hip.code_object import kernels_of
from convfind_backend_hip.compile_pool import CompilePool

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
    Layer((16, 512, 7, 7), (512, 512, 3, 3), Layout.NHWC),
    Layer((16, 128, 56, 56), (128, 128, 3, 3), dtype=FLOAT16, stride=2),
    Layer((16, 256, 14, 14), (64, 256, 1, 1), Layout.NHWC, BFLOAT16),
    *(
        layer
        for layout in (Layout.NCHW, Layout.NHWC)
        for layer in (
            Layer((16, 64, 56, 56), (64, 64, 3, 3), layout, INT8),
            Layer((16, 64, 28, 28), (64, 1, 3, 3), layout, groups=64, solvers="[dw]*"),
            Layer((8, 64, 56, 56), (64, 1, 31, 31), layout, groups=64, solvers="fft*"),
            Layer((8, 32, 28, 28), (32, 32, 11, 11), layout, solvers="fft*"),
            Layer(
                *((16, 64, 56, 56), (64, 64, 3, 3), layout),
                accuracy=AccuracyClass.RELAXED,
                solvers="winograd*",
            ),
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


def test_every_solver_takes_part(hiprtc: CompilePool) -> None:
    assert hiprtc
    from convfind_backend_hip.target import absent

    targets = [absent(arch) for arch in ARCHITECTURES]
    taking = {solver_id for target in targets for solver_id in programs_of(target)}
    registered = default_registry().solvers_for(targets[0])[0]
    assert taking == {solver.solver_id for solver in registered}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_kernel_compiles_and_none_spills(arch: str, hiprtc: CompilePool) -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    target = absent(arch)
    compiler = Compiler(target, hiprtc)
    programs = set().union(*programs_of(target).values())
    with ThreadPoolExecutor(2) as threads:
        binaries = threads.map(compiler.compile, programs)
    spilled = []
    for program, binary in zip(programs, binaries, strict=True):
        kernels = kernels_of(compiler.opened(program, binary))
        assert kernels, program
        for kernel in kernels:
            assert kernel.wave_size == target.wave_size
            assert kernel.local_memory <= target.local_memory
            if kernel.scratch:
                spilled.append((kernel.name, kernel.scratch, program.defines))
    assert programs
    assert not spilled


def test_an_error_comes_with_the_compilers_log(hiprtc: CompilePool) -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    program = Program(KernelSource("convfind", "kernel_include/convfind_kernel.h"))
    broken = replace(program, defines=(("CF_TYPE_INT32", "nonsense"),), options=("-Werror",))
    with pytest.raises(KernelBuildError, match="CF_TYPE_INT32"):
        Compiler(absent("gfx90a"), hiprtc).compile(broken)


def test_a_compiler_that_does_not_know_an_architecture_hurts_nobody(hiprtc: CompilePool) -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    program = Program(KernelSource("convfind_backend_hip", "kernels/store_sum.cl"))
    unknown = replace(absent("gfx90a"), identity="", arch="gfx9999")
    with pytest.raises(KernelBuildError, match="gfx9999"):
        Compiler(unknown, hiprtc).compile(program)
    assert Compiler(absent("gfx90a"), hiprtc).compile(program)


def test_a_damaged_or_foreign_binary_is_refused(hiprtc: CompilePool) -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    program = Program(KernelSource("convfind_backend_hip", "kernels/store_sum.cl"))
    here = Compiler(absent("gfx90a"), hiprtc)
    binary = here.compile(program)
    assert here.opened(program, binary) in binary
    with pytest.raises(KernelBuildError, match="damaged"):
        here.opened(program, binary[:-1])
    with pytest.raises(KernelBuildError, match="another device"):
        Compiler(absent("gfx906")).opened(program, binary)
