"""The conformance kit for backends passes a good one and finds the fault of a bad one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from convfind.device.target import DeviceKind
from convfind.errors import BackendUnavailableError, KernelBuildError, LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, Step
from convfind.testing import (
    MOCK_TARGET,
    MockBackend,
    MockBuffer,
    MockDevice,
    assert_backend,
    check_backend,
)
from convfind.testing.mock_backend import MockInvoker


def test_the_mock_backend_keeps_the_contract() -> None:
    gpu = replace(MOCK_TARGET, identity="", name="mock gpu", kind=DeviceKind.GPU)
    report = assert_backend(MockBackend(devices=(MOCK_TARGET, gpu)))
    assert not report.skipped
    assert report.devices == [MOCK_TARGET.identity, gpu.identity]
    assert len(report.passed) == 2 * len(set(report.passed))


def test_a_backend_without_kernels_is_checked_for_the_rest() -> None:
    class Library(MockBackend):
        languages = ()

    report = assert_backend(Library(functions={}))
    assert "a fill step clears its region only" in report.passed
    assert "steps run in their order" not in report.passed


def test_a_backend_without_devices_is_not_right() -> None:
    class Missing(MockBackend):
        def targets(self) -> Any:
            raise BackendUnavailableError("install it")

    report = check_backend(Missing())
    assert not report.ok
    assert "install it" in str(report)
    with pytest.raises(AssertionError, match="install it"):
        assert_backend(Missing())


class ShortMemory(MockDevice):
    def allocate(self, size: int) -> MockBuffer:
        return super().allocate(max(size - 1, 0))


class OneMemory(MockDevice):
    memory = np.zeros(1 << 23, np.uint8)

    def allocate(self, size: int) -> MockBuffer:
        return MockBuffer(self.memory[: super().allocate(size).size])


class ReadsFromTheStart(MockDevice):
    def read(self, buffer: object, array: np.ndarray[Any, Any], offset: int = 0) -> None:
        super().read(buffer, array)


class FillsFewer(MockDevice):
    def fill(self, buffer: object, byte: int) -> None:
        assert isinstance(buffer, MockBuffer)
        buffer.data[:-1] = byte


class WrapsCopies(MockDevice):
    def wrap_output(self, array: np.ndarray[Any, Any]) -> MockBuffer | None:
        return super().upload(array) if array.flags.writeable else None


class AdoptsArrays(MockDevice):
    def adopt(self, tensor: object) -> MockBuffer | None:
        return self.upload(tensor) if isinstance(tensor, np.ndarray) else super().adopt(tensor)


class NeverOverlaps(MockDevice):
    def overlap(self, first: object, second: object) -> bool:
        return False


class StaysOpen(MockDevice):
    def close(self) -> None:
        """Do nothing."""


class ClosesOnce(MockDevice):
    def close(self) -> None:
        self._check_open()
        super().close()


class TakesAnyBinary(MockDevice):
    def load(self, program: Program, binary: bytes) -> object:
        return program


class SaysNothing(MockDevice):
    def compile(self, program: Program) -> bytes:
        try:
            return super().compile(program)
        except KernelBuildError as error:
            raise KernelBuildError(error.source, error.options, "") from error


class RunsAnything(MockDevice):
    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> MockInvoker:
        return MockInvoker(self, tuple(steps))


class RunsBackwards(MockDevice):
    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> MockInvoker:
        return super().invoker(tuple(reversed(steps)), loaded)


class KeepsBuffers(MockDevice):
    kept: ClassVar[list[InvokeArgs]] = []

    def execute(self, step: Step, args: InvokeArgs) -> None:
        self.kept[:] = [args]
        super().execute(step, args)


class IgnoresMissing(MockDevice):
    def execute(self, step: Step, args: InvokeArgs) -> None:
        try:
            super().execute(step, args)
        except LaunchError:
            return


class ForgetsArguments(MockDevice):
    last: Launch | None = None

    def execute(self, step: Step, args: InvokeArgs) -> None:
        if isinstance(step, Launch) and step.kernel.entry == "conform_affine":
            self.last = self.last or step
            step = replace(step, arguments=(*step.arguments[:2], *self.last.arguments[2:]))
        super().execute(step, args)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (ShortMemory, "allocated memory has the size asked for"),
        (OneMemory, "memory of two buffers is apart"),
        (ReadsFromTheStart, "reading begins where it is told"),
        (ReadsFromTheStart, "copies that do not fit are refused"),
        (FillsFewer, "filling sets every byte"),
        (WrapsCopies, "results appear in wrapped arrays"),
        (AdoptsArrays, "own memory is adopted and nothing foreign"),
        (NeverOverlaps, "buffers overlap where they share memory"),
        (StaysOpen, "a closed device refuses work"),
        (ClosesOnce, "a closed device refuses work"),
        (TakesAnyBinary, "damaged binaries are refused"),
        (SaysNothing, "a build error has source options and log"),
        (RunsAnything, "impossible launches are refused"),
        (RunsBackwards, "steps run in their order"),
        (KeepsBuffers, "invokers keep no buffers alive"),
        (IgnoresMissing, "missing and foreign operands are named"),
        (IgnoresMissing, "regions outside their memory are refused"),
        (ForgetsArguments, "invokers of one kernel are apart"),
    ],
)
def test_a_fault_is_found_by_name(kind: type[MockDevice], check: str) -> None:
    class Faulty(MockBackend):
        def open(self, selector: str = "") -> MockDevice:
            good = super().open(selector)
            return kind(good.target, good.functions)

    report = check_backend(Faulty())
    found = {failure.check for failure in report.failures}
    assert check in found, report
    assert check in str(report)
