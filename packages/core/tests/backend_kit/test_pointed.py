"""Steps learn where their memory is from addresses alone, and say what is missing or short."""

from __future__ import annotations

import gc
import struct
import weakref

import pytest

from convfind.backend_kit.addressed import AddressBlock, AddressBuffer
from convfind.backend_kit.launching import PackedArguments
from convfind.backend_kit.pointed import AddressedMemory, PointedSteps
from convfind.backend_kit.ready import ReadyFill, ReadyGemm
from convfind.errors import LaunchError
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import (
    BufferArg,
    Fill,
    Launch,
    LibraryGemm,
    Matrix,
    ScalarArg,
    TensorMapArg,
    i32,
    moved_to,
)
from convfind.types import DataType

KERNEL = KernelSpec(Program(KernelSource("convfind.testing", "kernels/mock.cl")), "f")
SIZES = {"x": 4096, "y": 1024}


def buffer(address: int, size: int = 4096) -> AddressBuffer:
    return AddressBuffer(AddressBlock(address, size), size)


def packed(*arguments: BufferArg | ScalarArg) -> PackedArguments:
    return PackedArguments.of(Launch(KERNEL, arguments, (64,), (16,)))


def test_arguments_that_are_numbers_stay_beside_addresses() -> None:
    arguments = packed(
        i32(-3), BufferArg("y", 512), BufferArg("w"), BufferArg("x"), ScalarArg(2, "int16")
    )
    memory = AddressedMemory({"w": buffer(1 << 40)}, SIZES)
    point = arguments.pointed(memory)
    for x, y in ((16, 32), (1 << 63, 64), (16, 32)):
        point([*memory.staying, x, y])
        assert bytes(arguments.data) == struct.pack("=i4xQQQh", -3, y + 512, 1 << 40, x, 2)


MAP = TensorMapArg("x", 32, DataType.FLOAT32, sizes=(8, 4), strides=(8,), box=(8, 4))


def test_maps_are_written_where_memory_is_now() -> None:
    launch = Launch(KERNEL, (i32(1), MAP, BufferArg("y")), (64,), (16,))
    arguments = PackedArguments.of(launch, lambda arg, at: struct.pack("<QQ112x", at, arg.box[0]))
    assert arguments.sizes == (4, 128, 8)
    point = arguments.pointed(AddressedMemory({}, SIZES))
    for x, y in ((4096, 64), (1 << 40, 128)):
        point([x, y])
        assert bytes(arguments.data) == struct.pack("<i124xQQ112xQ", 1, x + 32, 8, y)
    arguments.bind({"x": buffer(512), "y": buffer(1024)})
    assert struct.unpack_from("<Q", arguments.data, 128) == (512 + 32,)
    with pytest.raises(LaunchError, match="byte 32 of x is outside its 16 bytes"):
        arguments.bind({"x": buffer(512, 16), "y": buffer(1024)})


def test_maps_move_with_their_memory_and_need_a_runtime_that_has_them() -> None:
    launch = Launch(KERNEL, (MAP,), (64,), (16,))
    (moved,) = moved_to([launch], {"x": BufferArg("workspace", 512)})
    assert isinstance(moved, Launch)
    (found,) = moved.arguments
    assert isinstance(found, TensorMapArg)
    assert (found.memory, found.offset, found.sizes) == ("workspace", 512 + 32, (8, 4))
    with pytest.raises(LaunchError, match=r"argument 0 of f of .*mock.cl: only CUDA has"):
        PackedArguments.of(launch)


def test_steps_have_the_addresses_of_the_last_call() -> None:
    done: list[tuple[object, ...]] = []
    gemm = LibraryGemm(
        *(2, 3, 4),
        Matrix("x", DataType.FLOAT32, 4),
        Matrix("w", DataType.FLOAT32, 3, offset=64),
        Matrix("y", DataType.FLOAT32, 3, offset=128),
    )
    product = ReadyGemm(gemm, lambda *call: done.append(call))
    fill = ReadyFill(Fill("y", 8, 256), lambda *call: done.append(call))
    steps = PointedSteps([fill, product], {"w": buffer(1 << 20)}, SIZES)
    for x, y in ((4096, 8192), (16384, 8192)):
        steps.point((x, y))
        fill.enqueue()
        product.enqueue()
        assert done[-2:] == [(y + 8, 256), (x, (1 << 20) + 64, y + 128)]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"x": 4096}, "the steps use y, which is missing from the arguments"),
        ({"x": 4096, "y": 263}, "ends at byte 264 of y, past the end of its 263 bytes"),
    ],
)
def test_memory_that_is_missing_or_short_is_named(sizes: dict[str, int], message: str) -> None:
    fill = ReadyFill(Fill("y", 8, 256), lambda *_: None)
    with pytest.raises(LaunchError, match=message):
        PointedSteps([fill], {}, sizes)


def test_arguments_and_matrices_lie_inside_their_memory() -> None:
    short = AddressedMemory({"w": buffer(0, 64)}, {"x": 512, "y": 64})
    with pytest.raises(LaunchError, match="byte 512 of x is outside its 512 bytes"):
        packed(BufferArg("x", 512)).pointed(short)
    x, y, w = (Matrix(name, DataType.FLOAT32, 4) for name in ("x", "y", "w"))
    with pytest.raises(LaunchError, match="of y, past the end of its 64 bytes"):
        ReadyGemm(LibraryGemm(4, 4, 5, x, y, w), lambda *_: None).pointed(short)


def test_memory_that_stays_is_kept_as_long_as_the_steps() -> None:
    w = buffer(1 << 20)
    gone = weakref.ref(w)
    steps = PointedSteps([ReadyFill(Fill("w", 0, 8), lambda *_: None)], {"w": w}, {})
    del w
    gc.collect()
    assert gone() is not None
    del steps
    gc.collect()
    assert gone() is None
