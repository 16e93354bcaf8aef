"""Limits of launches, and arguments laid out as C has them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace

import pytest

from convfind.backend_kit.addressed import AddressBlock, AddressBuffer
from convfind.backend_kit.invoker import BoundSteps
from convfind.backend_kit.launching import LaunchLimits, PackedArguments
from convfind.backend_kit.ready import ReadyFill, ReadyGemm, refuse_epilogue
from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import (
    BufferArg,
    Fill,
    GemmEpilogue,
    Launch,
    LibraryGemm,
    LocalArg,
    Matrix,
    ScalarArg,
    Step,
    f32,
    i64,
)
from convfind.types import DataType

KERNEL = KernelSpec(Program(KernelSource("convfind.testing", "kernels/mock.cl")), "f")
LIMITS = LaunchLimits(group=256, alignment=128)


def launch(*arguments: BufferArg | ScalarArg | LocalArg) -> Launch:
    return Launch(KERNEL, arguments, (64,), (16,))


def buffer(address: int, size: int = 4096) -> AddressBuffer:
    return AddressBuffer(AddressBlock(address, size), size)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (replace(LIMITS, group=8), "a group of 16 is over the kernel's limit of 8"),
        (replace(LIMITS, group_axes=(8, 8, 8)), r"local size \(16,\) is over the device's \(8,\)"),
        (replace(LIMITS, items=63), r"global size \(64,\) is over 63 along an axis"),
        (replace(LIMITS, declared=(8, 2, 1)), r"is not the \(8, 2, 1\) that it declares"),
        (replace(LIMITS, local_memory=15), r"local memory of \[16\] bytes; possible: 1 to 15"),
        (replace(LIMITS, alignment=1024), "byte 512 of x is no multiple of 1024"),
    ],
)
def test_a_launch_beyond_a_limit_is_refused(limits: LaunchLimits, words: str) -> None:
    step = launch(BufferArg("x", 512), LocalArg(16))
    replace(LIMITS, group_axes=(64, 1, 1), declared=(16, 1, 1), local_memory=16).check(step)
    with pytest.raises(LaunchError, match=f"f of convfind.testing/kernels/mock.cl.*{words}"):
        limits.check(step)


def test_arguments_have_the_gaps_of_a_c_structure() -> None:
    arguments = (ScalarArg(-1, "int8"), BufferArg("x", 512), ScalarArg(2, "int16"), f32(3.0))
    packed = PackedArguments.of(launch(*arguments, LocalArg(32), LocalArg(8), i64(4)))
    packed.bind({"x": buffer(1 << 40)})
    assert bytes(packed.data) == struct.pack("=b7xQh2xfq", -1, (1 << 40) + 512, 2, 3.0, 4)
    assert packed.sizes == (1, 8, 2, 4, 8)
    assert packed.local_memory == 40
    with pytest.raises(LaunchError, match="byte 512 of x is outside its 512 bytes"):
        packed.bind({"x": buffer(0, 512)})


class Noted(ReadyFill):
    """A fill that counts how often it is bound."""

    bound = 0

    def bind(self, buffers: Mapping[str, AddressBuffer]) -> None:
        self.bound += 1
        super().bind(buffers)


def test_steps_are_bound_again_where_a_buffer_changes() -> None:
    calls: list[tuple[int, int]] = []
    fills: list[Noted] = []

    def ready(step: Step) -> Noted:
        assert isinstance(step, Fill)
        fills.append(Noted(step, lambda *call: calls.append(call)))
        return fills[-1]

    steps = BoundSteps("test", AddressBuffer, [Fill("y", 512, 8), Fill("y", 0, 0)], ready)
    first, second = InvokeArgs(y=buffer(1024)), InvokeArgs(y=buffer(1024))
    for args in (first, first, second):
        steps.bind(args)
        fills[0].enqueue()
    assert len(fills) == 1, "a fill of nothing is no step"
    assert fills[0].bound == 2, "memory at the same address is not the same memory"
    assert calls == [(1536, 8)] * 3
    with pytest.raises(LaunchError, match="ends at byte 520 of y, past the end of its 64 bytes"):
        steps.bind(InvokeArgs(y=buffer(0, 64)))
    steps.bind(second)
    assert fills[0].bound == 4, "what was refused half-way is bound again"


def test_matrices_end_inside_their_memory() -> None:
    gemm = LibraryGemm(
        *(2, 3, 4),
        Matrix("x", DataType.FLOAT32, 4, stride=8),
        Matrix("w", DataType.FLOAT16, 5, offset=512),
        Matrix("y", DataType.FLOAT32, 3, stride=6),
        trans_b=True,
        batch=2,
    )
    calls: list[tuple[int, int, int]] = []
    ready = ReadyGemm(gemm, lambda *call: calls.append(call))
    sizes = {"x": 4 * 16, "w": 512 + 2 * (2 * 5 + 4), "y": 4 * 12}
    ready.bind({name: buffer(1 << 20, size) for name, size in sizes.items()})
    ready.enqueue()
    assert calls == [(1 << 20, (1 << 20) + 512, 1 << 20)]
    for name in sizes:
        short = {other: size - (other == name) for other, size in sizes.items()}
        with pytest.raises(LaunchError, match=f"of {name}, past the end of its"):
            ready.bind({other: buffer(0, size) for other, size in short.items()})


def test_matrices_of_an_epilogue_end_inside_their_memory() -> None:
    gemm = LibraryGemm(
        *(2, 3, 4),
        Matrix("x", DataType.FLOAT32, 4, stride=8),
        Matrix("w", DataType.FLOAT32, 3, stride=12),
        Matrix("y", DataType.FLOAT32, 3, stride=6),
        batch=2,
        epilogue=GemmEpilogue(
            Matrix("bias", DataType.FLOAT16, 3, stride=3),
            Matrix("z", DataType.FLOAT32, 3, offset=512, stride=6),
        ),
    )
    calls: list[tuple[int, ...]] = []
    ready = ReadyGemm(gemm, lambda *call: calls.append(call))
    sizes = {"x": 4 * 16, "w": 4 * 24, "y": 4 * 12, "bias": 2 * 6, "z": 512 + 4 * 12}
    ready.bind({name: buffer(1 << 20, size) for name, size in sizes.items()})
    ready.enqueue()
    assert calls == [(*(1 << 20,) * 4, (1 << 20) + 512)]
    for name in sizes:
        short = {other: size - (other == name) for other, size in sizes.items()}
        with pytest.raises(LaunchError, match=f"of {name}, past the end of its"):
            ready.bind({other: buffer(0, size) for other, size in short.items()})
    with pytest.raises(LaunchError, match="in a step of its own"):
        refuse_epilogue(gemm)
