"""Every shared kernel in its default configurations, compiled by NVRTC: no GPU is needed."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from shipped_programs import (
    NVIDIA_ARCHITECTURES,
    kind_of,
    operators_programs,
    programs_of,
    shared_out,
)

from convfind.checking import comparer, fingerprints
from convfind.cli import build_program
from convfind.errors import DeviceError, KernelBuildError
from convfind.kit.assembler_log import figures_in
from convfind.kit.register_limit import register_limit
from convfind.plugins.registry import default_registry
from convfind.problem import Activation, ConvProblem
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind_backend_cuda.architectures import KNOWN, compiled_for

#: Bytes that a few kernels may spill; each is a register's worth.
_FEW = 16
#: Architectures whose kernels may declare more than 48 KiB of local memory.
LARGE = ("sm_90",)
pytestmark = pytest.mark.usefixtures("nvrtc")


def launched_programs() -> dict[str, set[Program]]:
    """The programs of all solvers, of each architecture."""
    from convfind_backend_cuda.target import absent

    return {arch: set().union(*programs_of(absent(arch)).values()) for arch in NVIDIA_ARCHITECTURES}


def test_every_solver_takes_part() -> None:
    from convfind_backend_cuda.target import absent

    targets = [absent(arch) for arch in NVIDIA_ARCHITECTURES]
    taking = {solver_id for target in targets for solver_id in programs_of(target)}
    registered = default_registry().solvers_for(targets[0])[0]
    assert taking == {solver.solver_id for solver in registered}


def test_every_program_is_compiled_and_every_kind_for_each() -> None:
    launched = launched_programs()
    shares = shared_out(launched, NVIDIA_ARCHITECTURES)
    assert set().union(*shares.values()) == set().union(*launched.values())
    for arch, programs in launched.items():
        assert set(map(kind_of, shares[arch])) == set(map(kind_of, programs))


@pytest.mark.parametrize("arch", NVIDIA_ARCHITECTURES)
def test_every_kernel_compiles_and_none_spills(arch: str) -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    compiler = Compiler(absent(arch))
    programs = shared_out(launched_programs(), NVIDIA_ARCHITECTURES)[arch]

    def compiled(program: Program) -> bytes:
        try:
            return compiler.compile(program)
        except KernelBuildError as exc:
            if arch in LARGE or "too much shared data" not in exc.log:
                raise
            return b""

    with ThreadPoolExecutor(2) as threads:
        binaries = list(threads.map(compiled, programs))
    assert any(binaries)
    spilled = []
    for program, binary in zip(programs, binaries, strict=True):
        if not binary:
            continue
        assert compiler.opened(program, binary).startswith(b"\x7fELF")
        kernels = figures_in(compiler.build_log(program)).values()
        assert kernels, program
        for kernel in kernels:
            assert kernel.registers is not None
            assert kernel.registers <= 255
            assert not kernel.is_serialized, program
            if arch in LARGE and kernel.spilled > _FEW:
                spilled.append((kernel, program.source.path, program.defines))
    assert not spilled


@pytest.mark.parametrize("arch", KNOWN)
def test_every_architecture_is_compiled_for(arch: str) -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    program = Program(KernelSource("convfind_solvers_igemm", "kernels/gpu_sum.cl"))
    assert Compiler(absent(arch)).compile(program)


@pytest.mark.parametrize("add_last", [False, True], ids=["added before", "added last"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8"])
def test_an_added_tensor_of_every_type_compiles(dtype: str, add_last: bool) -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    target = absent("sm_90")
    problem = ConvProblem.forward(
        *((2, 32, 9, 9), (32, 32, 3, 3)),
        layout="NHWC",
        dtype=dtype,
        y_dtype="int32" if dtype == "int8" else dtype,
        bias=True,
        add=True,
        add_last=add_last,
        activation=None if dtype == "int8" else "relu",
    )
    solver = default_registry().solver("direct-naive-fwd")
    for program in solver.solution(problem, target).programs:
        assert Compiler(target).compile(program)


@pytest.mark.parametrize("arch", NVIDIA_ARCHITECTURES)
@pytest.mark.parametrize("how", [{}, {"causal": True}, {"mask": True}], ids=str)
@pytest.mark.parametrize(
    ("dtype", "depth"),
    [
        *itertools.product(("float32", "float16", "bfloat16"), (40, 64, 128)),
        *itertools.product(("float16",), (160, 192)),
    ],
)
def test_attention_compiles_and_spills_nothing(
    dtype: str, depth: int, how: dict[str, bool], arch: str
) -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    target = absent(arch)
    compiler = Compiler(target)
    operators = pytest.importorskip("convfind_operators")
    for length, allow_tf32 in ((197, False), (2048, False), (2048, arch in LARGE)):
        shape = (2, 30, length, depth)
        mask = {"mask": (2, 1, 1, length), "mask_dtype": dtype} if "mask" in how else how
        problem = operators.AttentionProblem(
            q=shape, k=shape, v=shape, dtype=dtype, allow_tf32=allow_tf32, **mask
        )
        recipe = operators.solver_of(problem, target).solution(problem, target)
        (program,) = recipe.programs
        compiler.compile(program)
        (kernel,) = figures_in(compiler.build_log(program)).values()
        assert kernel.spilled <= _FEW
        assert not kernel.is_serialized


@pytest.mark.parametrize("arch", NVIDIA_ARCHITECTURES)
def test_kernels_of_operators_compile_and_spill_little(arch: str) -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    target = absent(arch)
    compiler = Compiler(target)
    for program in operators_programs(target):
        compiler.compile(program)
        kernels = figures_in(compiler.build_log(program)).values()
        assert all(one.spilled is not None and one.spilled <= _FEW for one in kernels)


@pytest.mark.parametrize("arch", NVIDIA_ARCHITECTURES)
def test_what_checks_results_compiles(arch: str) -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    target = absent(arch)
    compiler = Compiler(target)
    types = ("float64", "float32", "float16", "bfloat16", "int32")
    compares = [comparer.program_for(target, one, one, "float64") for one in types]
    activated = [
        comparer.program_for(target, "float32", "float32", "float32", Activation(kind))
        for kind in ("relu", "silu", "gelu-erf")
    ]
    for program in (fingerprints.program_for(target), *compares, *activated):
        compiler.compile(program)
        (kernel,) = figures_in(compiler.build_log(program)).values()
        assert kernel.spilled == 0


def test_a_limit_of_registers_is_kept() -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    target = absent("sm_90")
    compiler = Compiler(target)
    program = Program(
        KernelSource("convfind_solvers_igemm", "kernels/gpu_conv.cl"),
        options=register_limit(target, 64),
    )
    compiler.compile(program)
    figures = figures_in(compiler.build_log(program)).values()
    assert figures
    assert all(kernel.registers and kernel.registers <= 64 for kernel in figures)


def test_an_error_comes_with_the_compilers_log() -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    program = Program(KernelSource("convfind_solvers_igemm", "kernels/gpu_sum.cl"))
    broken = replace(program, defines=(("CF_TYPE_INT32", "nonsense"),), options=("-Werror",))
    with pytest.raises(KernelBuildError, match="-Werror"):
        Compiler(absent("sm_90")).compile(broken)
    foreign = replace(program, language=KernelLanguage.OPENCL_C)
    with pytest.raises(KernelBuildError, match="compiles cuda and shared, not opencl-c"):
        Compiler(absent("sm_90")).compile(foreign)


def test_an_architecture_that_nvrtc_does_not_know_is_an_error() -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    unknown = replace(absent("sm_90"), identity="", arch="sm_999")
    program = Program(KernelSource("convfind_solvers_igemm", "kernels/gpu_sum.cl"))
    with pytest.raises(KernelBuildError, match="sm_999"):
        Compiler(unknown).compile(program)
    with pytest.raises(DeviceError, match=r"no such target: 'sm_1'; known: sm_75"):
        absent("sm_1")


def test_a_device_that_is_not_here_is_told_as_the_device_tells_itself() -> None:
    from convfind_backend_cuda.target import absent

    target = absent("sm_90a", 114)
    assert target.arch == "sm_90"
    assert target.identity == "cuda|CUDA|NVIDIA H100 80GB HBM3|sm_90|114"
    assert target.compute_capability == 90
    assert compiled_for(target.arch) == "sm_90a"
    assert all(absent(arch).compute_units == known.compute_units for arch, known in KNOWN.items())


def test_a_damaged_or_foreign_binary_is_refused() -> None:
    from convfind_backend_cuda.compiler import Compiler
    from convfind_backend_cuda.target import absent

    program = Program(KernelSource("convfind_solvers_igemm", "kernels/gpu_sum.cl"))
    here = Compiler(absent("sm_90"))
    binary = here.compile(program)
    assert here.opened(program, binary) in binary
    with pytest.raises(KernelBuildError, match="damaged"):
        here.opened(program, binary[:-1])
    with pytest.raises(KernelBuildError, match="another device"):
        Compiler(absent("sm_80")).opened(program, binary)


def test_the_program_compiles_for_a_gpu_that_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(tmp_path))
    words = ["compile", "--target", "sm_90a", "--json", "--x", "1,8,9,9", "--w", "8,8,1,1"]
    done = CliRunner().invoke(build_program(default_registry()), words)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["target"].endswith("|sm_90|132")
    assert not document["failed"]
    assert all(kernel["registers"] and not kernel["spilled"] for kernel in document["kernels"])
    assert len(document["kernels"]) >= document["programs"] > 0
    assert (tmp_path / "binaries.lmdb").exists()
