"""Every shared kernel in its default configurations, compiled by the hiprtc that is installed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import pytest

from convfind.errors import KernelBuildError
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelLanguage, Program
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.types import DataType, Direction
from convfind_backend_hip.code_object import KernelFacts, kernels_of

ARCHITECTURES = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030")
LAYERS = tuple(
    ConvProblem.forward(x=x, w=w, stride=stride, padding=padding, groups=groups, dtype=dtype)
    for x, w, stride, padding, groups in (
        ((16, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
        ((16, 256, 56, 56), (64, 256, 1, 1), 1, 0, 1),
        ((16, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
        ((16, 128, 28, 28), (128, 32, 3, 3), 1, 1, 4),
    )
    for dtype in (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)
)
PROBLEMS = tuple(layer.with_direction(way) for layer in LAYERS for way in Direction)


@cache
def _compiled(arch: str) -> tuple[tuple[Program, tuple[KernelFacts, ...]], ...]:
    from convfind_backend_hip.cli import programs_for
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    compiler = Compiler(absent(arch))
    programs = programs_for(default_registry(), PROBLEMS, absent(arch))
    with ThreadPoolExecutor(2) as threads:
        binaries = list(threads.map(compiler.compile, programs))
    return tuple(
        (program, kernels_of(compiler.opened(program, binary)))
        for program, binary in zip(programs, binaries, strict=True)
    )


@pytest.mark.usefixtures("hiprtc")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_kernel_compiles(arch: str) -> None:
    from convfind_backend_hip.target import absent

    target = absent(arch)
    assert _compiled(arch)
    for program, kernels in _compiled(arch):
        assert kernels, program
        for kernel in kernels:
            assert kernel.wave_size == target.wave_size
            assert kernel.local_memory <= target.local_memory


@pytest.mark.usefixtures("hiprtc")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_no_default_configuration_spills(arch: str) -> None:
    spilled = [
        f"{kernel.name} {kernel.scratch} bytes: {program.defines}"
        for program, kernels in _compiled(arch)
        for kernel in kernels
        if kernel.scratch
    ]
    assert not spilled


@pytest.mark.usefixtures("hiprtc")
def test_an_error_comes_with_the_compilers_log() -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    program = Program(KernelSource("convfind", "kernel_include/convfind_kernel.h"))
    broken = replace(program, defines=(("CF_TYPE_INT32", "nonsense"),), options=("-Werror",))
    with pytest.raises(KernelBuildError, match="CF_TYPE_INT32"):
        Compiler(absent("gfx90a")).compile(broken)


@pytest.mark.usefixtures("hiprtc")
def test_opencl_c_is_refused() -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    source = KernelSource("convfind", "kernel_include/convfind_kernel.h")
    with pytest.raises(KernelBuildError, match="not opencl-c"):
        Compiler(absent("gfx90a")).compile(Program(source, KernelLanguage.OPENCL_C))


@pytest.mark.usefixtures("hiprtc")
def test_a_damaged_or_foreign_binary_is_refused() -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    program = Program(KernelSource("convfind_backend_hip", "kernels/store_sum.cl"))
    here = Compiler(absent("gfx90a"))
    binary = here.compile(program)
    assert here.opened(program, binary) in binary
    with pytest.raises(KernelBuildError, match="damaged"):
        here.opened(program, binary[:-1])
    with pytest.raises(KernelBuildError, match="another device"):
        Compiler(absent("gfx906")).opened(program, binary)
