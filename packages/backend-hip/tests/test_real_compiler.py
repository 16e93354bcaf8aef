"""Every shared kernel in its default configurations, compiled by the hiprtc that is installed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from shipped_programs import (
    AMD_ARCHITECTURES,
    has_own_instructions,
    kind_of,
    operators_programs,
    programs_of,
    shared_out,
)

from convfind.errors import KernelBuildError
from convfind.plugins.registry import default_registry
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind_backend_hip.code_object import kernels_of
from convfind_backend_hip.compile_pool import CompilePool

#: Not all: benchmarks/hip_code_objects.py compiles every program for every architecture. gfx900 has
#: gfx906's registers and less of its arithmetic.
COMPILED = [arch for arch in AMD_ARCHITECTURES if arch != "gfx900"]
#: One for each size of waves. Those with matrix instructions have gfx906's registers, and more.
TELLING = ("gfx906", "gfx1030")


def launched_programs() -> dict[str, set[Program]]:
    """The programs of all solvers, of each architecture."""
    from convfind_backend_hip.target import absent

    return {arch: set().union(*programs_of(absent(arch)).values()) for arch in COMPILED}


def test_every_solver_takes_part(hiprtc: CompilePool) -> None:
    assert hiprtc
    from convfind_backend_hip.target import absent

    targets = [absent(arch) for arch in AMD_ARCHITECTURES]
    taking = {solver_id for target in targets for solver_id in programs_of(target)}
    registered = default_registry().solvers_for(targets[0])[0]
    assert taking == {solver.solver_id for solver in registered}


def test_every_program_is_compiled_and_every_kind_for_each(hiprtc: CompilePool) -> None:
    assert hiprtc
    launched = launched_programs()
    shares = shared_out(launched, TELLING)
    assert set().union(*shares.values()) == set().union(*launched.values())
    for arch, programs in launched.items():
        assert shares[arch] <= programs
        due = {p for p in programs if arch in TELLING or has_own_instructions(p)}
        assert set(map(kind_of, shares[arch])) >= set(map(kind_of, due))
        assert due


@pytest.mark.parametrize("arch", COMPILED)
def test_every_kernel_compiles_and_none_spills(arch: str, hiprtc: CompilePool) -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    target = absent(arch)
    compiler = Compiler(target, hiprtc)
    programs = shared_out(launched_programs(), TELLING)[arch]
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


@pytest.mark.parametrize("arch", TELLING)
def test_kernels_of_operators_compile_and_none_spills(arch: str, hiprtc: CompilePool) -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    target = absent(arch)
    compiler = Compiler(target, hiprtc)
    for program in operators_programs(target):
        for kernel in kernels_of(compiler.opened(program, compiler.compile(program))):
            assert kernel.local_memory <= target.local_memory
            assert not kernel.scratch, (kernel.name, program.defines)


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

    program = Program(KernelSource("convfind.backend_kit.library_gemm", "kernels/store_sum.cl"))
    unknown = replace(absent("gfx90a"), identity="", arch="gfx9999")
    with pytest.raises(KernelBuildError, match="gfx9999"):
        Compiler(unknown, hiprtc).compile(program)
    assert Compiler(absent("gfx90a"), hiprtc).compile(program)


def test_a_damaged_or_foreign_binary_is_refused(hiprtc: CompilePool) -> None:
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    program = Program(KernelSource("convfind.backend_kit.library_gemm", "kernels/store_sum.cl"))
    here = Compiler(absent("gfx90a"), hiprtc)
    binary = here.compile(program)
    assert here.opened(program, binary) in binary
    with pytest.raises(KernelBuildError, match="damaged"):
        here.opened(program, binary[:-1])
    with pytest.raises(KernelBuildError, match="another device"):
        Compiler(absent("gfx906")).opened(program, binary)
