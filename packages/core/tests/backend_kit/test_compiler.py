"""Sealed binaries, languages and build logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.backend_kit.status import StatusAdvice
from convfind.errors import DeviceError, KernelBuildError, LaunchError
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind.testing import MOCK_TARGET

PROGRAM = Program(KernelSource("convfind.testing", "kernels/mock.cl"))


class Reversing(ProgramCompiler):
    """Code is the source, backwards; the log is what it is told."""

    magic = b"reversed\0"
    log = "two registers"

    def build(self, program: Program) -> tuple[bytes, str]:
        return program.source.text.encode()[::-1], self.log


def test_a_binary_opens_on_the_same_target_only() -> None:
    binary = Reversing(MOCK_TARGET).compile(PROGRAM)
    assert Reversing(MOCK_TARGET).opened(PROGRAM, binary) == PROGRAM.source.text.encode()[::-1]
    other = Reversing(replace(MOCK_TARGET, driver="2.0"))
    with pytest.raises(KernelBuildError, match="compile it again"):
        other.opened(PROGRAM, binary)


@pytest.mark.parametrize("damaged", [b"", b"reversed\0", b"reversed\0" + bytes(16)])
def test_a_damaged_binary_is_refused(damaged: bytes) -> None:
    compiler = Reversing(MOCK_TARGET)
    good = compiler.compile(PROGRAM)
    for binary in (damaged, good[:-1], good[1:], good[:-1] + bytes([good[-1] ^ 1])):
        with pytest.raises(KernelBuildError, match="compile it again"):
            compiler.opened(PROGRAM, binary)


def test_another_language_is_refused_by_name() -> None:
    with pytest.raises(KernelBuildError, match="mock backend compiles shared, not hip"):
        Reversing(MOCK_TARGET).compile(replace(PROGRAM, language=KernelLanguage.HIP))


def test_the_last_log_with_words_is_kept() -> None:
    compiler = Reversing(MOCK_TARGET)
    assert compiler.build_log(PROGRAM) == ""
    compiler.compile(PROGRAM)
    compiler.log = ""
    compiler.compile(PROGRAM)
    assert compiler.build_log(PROGRAM) == "two registers"


def test_a_status_has_its_advice_or_that_of_all_others() -> None:
    advice = StatusAdvice({"OUT_OF_MEMORY": "free some"}, otherwise="start again")
    found = advice.error(DeviceError, "allocation of 9 bytes", "OUT_OF_MEMORY", "malloc")
    assert str(found) == "allocation of 9 bytes: malloc failed with OUT_OF_MEMORY; free some"
    other = advice.error(LaunchError, "launch of f", "BROKEN")
    assert str(other) == "launch of f failed with BROKEN; start again"
    assert isinstance(other, LaunchError)
    assert str(StatusAdvice({}).error(DeviceError, "it", "BROKEN")) == "it failed with BROKEN"
