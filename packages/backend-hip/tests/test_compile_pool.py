"""Compiling in child processes that may die."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.errors import KernelBuildError
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind_backend_hip import compile_pool
from convfind_backend_hip.compile_pool import CompilePool, CompilerDiedError
from convfind_backend_hip.compiler import Compiler

_ANSWERS = """
import os, sys
sys.path.insert(0, {folder!r})
import compile_worker
while True:
    try:
        source, name, options = compile_worker.receive(sys.stdin.buffer)
    except EOFError:
        break
    if "abort" in source:
        os.abort()
    compile_worker.send(sys.stdout.buffer, (b"code of " + str(os.getpid()).encode(), ""))
"""
TARGET = Target("hip", "a gpu", DeviceKind.GPU, "AMD", "ROCm", "gfx9999", 1, "1")


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompilePool:
    """A pool whose processes answer without a compiler, or abort as some compilers do."""
    script = tmp_path / "worker.py"
    folder = str(Path(compile_pool.__file__).parent)
    script.write_text(_ANSWERS.format(folder=folder))
    monkeypatch.setattr(compile_pool, "_SCRIPT", script)
    return CompilePool()


def test_a_process_serves_one_program_after_the_other(pool: CompilePool) -> None:
    first, second = (pool.compile("text", "name", ()) for _ in range(2))
    pool.close()
    assert first == second


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_dead_process_is_an_error_and_the_next_program_gets_another(pool: CompilePool) -> None:
    alive = pool.compile("text", "name", ())
    with pytest.raises(CompilerDiedError, match="SIGABRT"):
        pool.compile("abort", "name", ())
    assert pool.compile("text", "name", ()) != alive
    pool.close()


def test_a_dead_compiler_names_the_architecture(pool: CompilePool, tmp_path: Path) -> None:
    (tmp_path / "abort.cl").write_text("abort")
    package = tmp_path / "dying_kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "abort.cl").write_text("abort")
    sys.path.insert(0, str(tmp_path))
    try:
        program = Program(KernelSource("dying_kernels", "abort.cl"))
        with pytest.raises(KernelBuildError, match="gfx9999") as caught:
            Compiler(TARGET, pool).compile(program)
    finally:
        sys.path.remove(str(tmp_path))
    pool.close()
    assert "SIGABRT" in caught.value.log


def test_opencl_c_is_refused(pool: CompilePool) -> None:
    source = KernelSource("convfind", "kernel_include/convfind_kernel.h")
    with pytest.raises(KernelBuildError, match="not opencl-c"):
        Compiler(TARGET, pool).compile(Program(source, KernelLanguage.OPENCL_C))
    pool.close()
