"""What tests have compiled before is taken for the same program and compiler, and for no other."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.device.target import Target
from convfind.errors import KernelBuildError
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.testing import MOCK_TARGET

sys.path.append(str(Path(__file__).parents[1] / "compiling"))

import compiled_before

PROGRAM = Program(KernelSource("convfind.kit", "kernels/copy_step.cl"))
BROKEN = replace(PROGRAM, defines=(("BROKEN", "1"),))


class Counting(ProgramCompiler):
    """A compiler that counts what it builds; it refuses one program."""

    magic = b"counting\0"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.built: list[Program] = []

    def build(self, program: Program) -> tuple[bytes, str]:
        """Return some code and a log."""
        self.built.append(program)
        if program == BROKEN:
            raise KernelBuildError("a program", (), "error: broken")
        return b"code\0of" + bytes(len(self.built)), "warning: a log"


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Counting]:
    """Return a maker of compilers of one target, which nobody else has."""
    monkeypatch.setattr(ProgramCompiler, "compile", ProgramCompiler.compile)
    monkeypatch.setenv("TESTS_COMPILED_DIR", str(tmp_path))
    compiled_before.use(tmp_path)
    target = replace(MOCK_TARGET, identity="", driver=uuid.uuid4().hex)
    return lambda: Counting(target)


def test_the_same_program_is_compiled_once(compiler: Callable[[], Counting]) -> None:
    first, second = compiler(), compiler()
    binary = first.compile(PROGRAM)
    assert second.compile(PROGRAM) == binary
    assert (first.built, second.built) == ([PROGRAM], [])
    assert second.build_log(PROGRAM) == "warning: a log"
    assert second.opened(PROGRAM, binary).startswith(b"code\0of")


def test_other_options_and_another_compiler_are_others(
    compiler: Callable[[], Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = compiler()
    one.compile(PROGRAM)
    one.compile(replace(PROGRAM, options=("-cl-opt-disable",)))
    one.compile(replace(PROGRAM, defines=(("SIZE", "2"),)))
    assert len(one.built) == 3
    other = Counting(replace(one.target, identity="", driver=uuid.uuid4().hex))
    other.compile(PROGRAM)
    monkeypatch.setenv("STANDIN_COMPILE", "fail")
    one.compile(PROGRAM)
    assert (len(other.built), len(one.built)) == (1, 4)
    monkeypatch.delenv("TESTS_COMPILED_DIR")
    one.compile(PROGRAM)
    assert len(one.built) == 5


def test_what_does_not_compile_is_compiled_again(compiler: Callable[[], Counting]) -> None:
    for _ in range(2):
        one = compiler()
        with pytest.raises(KernelBuildError, match="broken"):
            one.compile(BROKEN)
        assert one.built == [BROKEN]
