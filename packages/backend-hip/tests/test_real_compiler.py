"""Every shared kernel in its default configurations, compiled by the hiprtc that is installed.

A representative set of problems: `benchmarks/hip_code_objects.py` takes any.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import pytest

from convfind.errors import KernelBuildError
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import Program
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.types import DataType, Direction, Layout
from convfind_backend_hip.cli import programs_for
from convfind_backend_hip.code_object import KernelFacts, kernels_of
from convfind_backend_hip.compile_pool import CompilePool

ARCHITECTURES = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030")
FLOAT32, FLOAT16, BFLOAT16, INT8 = (
    *(DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT8),
)
#: x, w, stride, padding, groups; layout, type.
LAYERS = (
    ((16, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1, Layout.NCHW, FLOAT32),
    ((16, 256, 56, 56), (64, 256, 1, 1), 1, 0, 1, Layout.NCHW, FLOAT32),
    ((16, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1, Layout.NCHW, FLOAT32),
    ((16, 64, 28, 28), (64, 1, 3, 3), 1, 1, 64, Layout.NCHW, FLOAT32),
    ((16, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1, Layout.NHWC, FLOAT32),
    ((16, 128, 56, 56), (128, 128, 3, 3), 2, 1, 1, Layout.NCHW, FLOAT16),
    ((16, 256, 14, 14), (64, 256, 1, 1), 1, 0, 1, Layout.NHWC, BFLOAT16),
    ((16, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1, Layout.NCHW, INT8),
)
PROBLEMS = tuple(
    ConvProblem.forward(
        *(x, w), stride=stride, padding=padding, groups=groups, layout=layout, dtype=dtype
    ).with_direction(way)
    for x, w, stride, padding, groups, layout, dtype in LAYERS
    for way in (Direction if dtype is not INT8 else (Direction.FORWARD,))
)


@cache
def _compiled(arch: str, pool: CompilePool) -> tuple[tuple[Program, tuple[KernelFacts, ...]], ...]:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    compiler = Compiler(absent(arch), pool)
    programs = programs_for(default_registry(), PROBLEMS, absent(arch))
    with ThreadPoolExecutor(2) as threads:
        binaries = list(threads.map(compiler.compile, programs))
    return tuple(
        (program, kernels_of(compiler.opened(program, binary)))
        for program, binary in zip(programs, binaries, strict=True)
    )


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_kernel_compiles(arch: str, hiprtc: CompilePool) -> None:
    from convfind_backend_hip.target import absent

    target = absent(arch)
    assert _compiled(arch, hiprtc)
    for program, kernels in _compiled(arch, hiprtc):
        assert kernels, program
        for kernel in kernels:
            assert kernel.wave_size == target.wave_size
            assert kernel.local_memory <= target.local_memory


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_no_default_configuration_spills(arch: str, hiprtc: CompilePool) -> None:
    spilled = [
        f"{kernel.name} {kernel.scratch} bytes: {program.defines}"
        for program, kernels in _compiled(arch, hiprtc)
        for kernel in kernels
        if kernel.scratch
    ]
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
