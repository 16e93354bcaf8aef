"""Checks of a backend's compiler and launches: binaries, steps, arguments, what must be refused."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from convfind.errors import BackendUnavailableError, KernelBuildError, LaunchError
from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import (
    BufferArg,
    Fill,
    GemmEpilogue,
    Launch,
    LibraryGemm,
    LocalArg,
    Matrix,
    ScalarArg,
    f32,
    i32,
    i64,
    u32,
)
from convfind.testing.backend_bench import (
    COUNT,
    BackendBench,
    Unsupported,
    expect,
    expect_equal,
    launch,
    program,
    refused,
)
from convfind.types import DataType

X, Y = BufferArg("x"), BufferArg("y")
NUMBERS = np.arange(COUNT, dtype=np.float32)


def affine(
    a: float = 2, b: float = 1, x: BufferArg = X, y: BufferArg = Y, of: Program | None = None
) -> Launch:
    """Return the launch of y = a * x + b."""
    return launch("conform_affine", x, y, f32(a), f32(b), i32(COUNT), of=of)


def result_of(device: Device, step: Launch, loaded: object) -> Any:
    """Return a * x + b of the numbers, as a device computes it."""
    x, y = device.upload(NUMBERS), device.allocate(NUMBERS.nbytes)
    device.invoker([step], {step.kernel.program: loaded})(InvokeArgs(x=x, y=y))
    result = np.empty_like(NUMBERS)
    device.read(y, result)
    return result


def a_binary_is_good_on_another_device_of_the_target(bench: BackendBench) -> None:
    """Bytes, which another process might have written."""
    binary = bench.device.compile(program())
    expect(type(binary) is bytes, f"a binary is {type(binary).__name__}, not bytes")
    other = bench.opened()
    result = result_of(other, affine(), other.load(program(), binary))
    expect_equal(result, 2 * NUMBERS + 1, "the binary's kernel")


def damaged_binaries_are_refused(bench: BackendBench) -> None:
    """Truncated, flipped, of nothing."""
    device, good = bench.device, bench.device.compile(program())
    middle = len(good) // 2
    flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    for what, bad in (
        ("an empty binary", b""),
        ("garbage", b"garbage" * 100),
        ("half of a binary", good[:middle]),
        ("a binary with a bit flipped", flipped),
    ):
        refused(KernelBuildError, what, device.load, program(), bad)
    device.load(program(), good)


def a_build_error_has_source_options_and_log(bench: BackendBench) -> None:
    """So that the author of a kernel sees what is wrong; it also shows that macros arrive."""
    broken = program(BUILD_FAILS=1)
    try:
        bench.device.compile(broken)
    except KernelBuildError as error:
        expect("told to fail" in error.log, f"the log is not the compiler's: {error.log!r}")
        expect(error.source == str(broken.source), f"the source is {error.source!r}")
        expect("-DBUILD_FAILS=1" in error.options, f"the options are {error.options}")
        return
    expect(False, "a program that does not compile is not refused; raise KernelBuildError")


def programs_compile_side_by_side(bench: BackendBench) -> None:
    """In several threads."""
    programs = [program(VARIANT=number) for number in range(1, 5)]
    with ThreadPoolExecutor(len(programs)) as pool:
        binaries = list(pool.map(bench.device.compile, programs))
    for each, binary in zip(programs, binaries, strict=True):
        result = result_of(bench.device, affine(of=each), bench.device.load(each, binary))
        expect_equal(result, 2 * NUMBERS + 1, "a kernel that was compiled beside others")


def numbers_of_every_type_reach_the_kernel(bench: BackendBench) -> None:
    """In an order that leaves gaps in a C structure."""
    kinds = ("int8", "float32", "uint8", "int64", "int16", "uint64", "uint16", "int32", "uint32")
    values = (-7, 12, 255, -(2**40), -300, 2**40, 65535, -(2**31), 2**32 - 1)
    scalars = [ScalarArg(value, kind) for value, kind in zip(values, kinds, strict=True)]
    args = InvokeArgs(y=bench.device.allocate(8 * len(values)))
    bench.run(args, launch("conform_scalars", Y, *scalars, size=(1,), local=(1,)))
    expect_equal(bench.read(args.y, len(values), "int64"), values, f"numbers of types {kinds}")


def memory_of_any_name_reaches_its_argument(bench: BackendBench) -> None:
    """As problems name their operands."""
    names = ("w", "bias", "another_operand")
    buffers = {name: bench.floats(np.full(COUNT, at)) for at, name in enumerate(names, 1)}
    args = InvokeArgs(y=bench.device.allocate(4 * COUNT), unused=None, **buffers)
    operands = [BufferArg(name) for name in names]
    bench.run(args, launch("conform_digits", *operands, Y, i32(COUNT)))
    expect_equal(bench.read(args.y, COUNT), np.full(COUNT, 321), "the kernel's operands")


def work_groups_share_local_memory(bench: BackendBench) -> None:
    """Check local memory that the kernel declares."""
    args = InvokeArgs(x=bench.floats(NUMBERS), y=bench.device.allocate(4 * COUNT))
    bench.run(args, launch("conform_reverse", X, Y))
    expect_equal(bench.read(args.y, COUNT), _reversed(), "groups in reverse")


def local_memory_may_be_an_argument(bench: BackendBench) -> None:
    """Check local memory of the launch's size; a backend may refuse it, as HIP's does."""
    args = InvokeArgs(x=bench.floats(NUMBERS), y=bench.device.allocate(4 * COUNT))
    try:
        invoker = bench.invoker(launch("conform_reverse_given", X, Y, LocalArg(64)))
    except LaunchError as error:
        raise Unsupported(str(error)) from error
    invoker(args)
    expect_equal(bench.read(args.y, COUNT), _reversed(), "groups in reverse")
    most = bench.target.local_memory
    for size in (0, most + 1):
        step = launch("conform_reverse_given", X, Y, LocalArg(size))
        refused(LaunchError, f"{size} bytes of {most} of local memory", bench.invoker, step)


def work_items_have_three_axes(bench: BackendBench) -> None:
    """And the first is the fastest."""
    args = InvokeArgs(y=bench.device.allocate(4 * 24))
    sizes = (i32(4), i32(2), i32(3))
    bench.run(args, launch("conform_coordinates", Y, *sizes, size=(4, 2, 3), local=(2, 1, 3)))
    k, j, i = np.indices((3, 2, 4))
    expect_equal(bench.read(args.y, 24, "int32"), (100 * k + 10 * j + i).ravel(), "coordinates")


def steps_run_in_their_order(bench: BackendBench) -> None:
    """Each after the one before has finished, through parts of one buffer."""
    parts = [BufferArg("workspace", 512 * index) for index in range(4)]
    steps = [affine(1, 1, X, parts[0])]
    steps += [affine(2, 0, *pair) for pair in itertools.pairwise(parts)]
    args = InvokeArgs(
        x=bench.floats(NUMBERS),
        y=bench.device.allocate(4 * COUNT),
        workspace=bench.device.allocate(4096),
    )
    bench.run(args, *steps, affine(1, -1, parts[-1], Y), Fill("workspace", 0, 4096))
    expect_equal(bench.read(args.y, COUNT), 8 * (NUMBERS + 1) - 1, "steps one after the other")
    expect(not bench.read(args.workspace, 1024).any(), "the last step does not run last")


def buffers_may_change_between_calls(bench: BackendBench) -> None:
    """One invoker, called with the same buffers twice, then with others."""
    invoker = bench.invoker(affine(1, 0))
    for shift in range(3):
        args = InvokeArgs(x=bench.floats(NUMBERS + shift), y=bench.device.allocate(4 * COUNT))
        for _ in range(2):
            invoker(args)
        expect_equal(bench.read(args.y, COUNT), NUMBERS + shift, f"call {shift + 1}")


def invokers_of_one_kernel_are_apart(bench: BackendBench) -> None:
    """Each has its own arguments."""
    double, triple = bench.invoker(affine(2, 0)), bench.invoker(affine(3, 0))
    first, second = (
        InvokeArgs(x=bench.floats(NUMBERS), y=bench.device.allocate(4 * COUNT)) for _ in range(2)
    )
    for invoker, args in ((double, first), (triple, second), (double, first)):
        invoker(args)
    expect_equal(bench.read(first.y, COUNT), 2 * NUMBERS, "the first invoker")
    expect_equal(bench.read(second.y, COUNT), 3 * NUMBERS, "the second invoker")


def timing_runs_the_steps(bench: BackendBench) -> None:
    """And no steps take no time."""
    args = InvokeArgs(x=bench.floats(NUMBERS), y=bench.device.allocate(4 * COUNT))
    time = bench.invoker(affine()).timed(args)
    expect(0 <= time < float("inf"), f"a run takes {time} ms")
    expect_equal(bench.read(args.y, COUNT), 2 * NUMBERS + 1, "the timed steps")
    nothing = bench.device.invoker([], {})
    nothing(InvokeArgs())
    expect(nothing.timed(InvokeArgs()) == 0.0, "no steps take time")


def impossible_launches_are_refused(bench: BackendBench) -> None:
    """When the invoker is made: sizes, entry points, arguments, programs that are not loaded."""
    cases: list[tuple[str, Launch]] = [
        (
            f"global size {size} with groups of {local}",
            launch("conform_reverse", X, Y, size=size, local=local),
        )
        for size, local in (
            ((65,), (16,)),
            ((0,), (16,)),
            ((64,), (0,)),
            ((-16,), (16,)),
            ((64, 1), (16,)),
            ((), ()),
            ((1, 1, 1, 1), (1, 1, 1, 1)),
            ((1 << 24,), (1 << 24,)),
        )
    ]
    for number in (i32(2**31), u32(-1), i64(2**63), ScalarArg(1, "int31")):
        step = launch("conform_affine", X, Y, f32(1), f32(1), number)
        cases.append((f"{number.value} as {number.kind}", step))
    cases.append(("an entry point that is not there", launch("conform_missing", X, Y)))
    for doing, step in cases:
        refused(LaunchError, doing, bench.invoker, step)
    refused(LaunchError, "a program that is not loaded", bench.device.invoker, [affine()], {})


def missing_and_foreign_operands_are_named(bench: BackendBench) -> None:
    """In a `LaunchError`, and the next call with good buffers works."""

    class Foreign:
        size = 4 * COUNT

    invoker = bench.invoker(affine())
    x, y = bench.floats(NUMBERS), bench.device.allocate(4 * COUNT)
    for name, args in (
        ("y", InvokeArgs(x=x)),
        ("y", InvokeArgs(x=x, y=None)),
        ("x", InvokeArgs(x=Foreign(), y=y)),
    ):
        for run in (invoker, invoker.timed):
            told = refused(LaunchError, f"{name} that is no buffer", run, args)
            expect(re.search(rf"\b{name}\b", told), f"the message does not name {name}: {told}")
    invoker(InvokeArgs(x=x, y=y))
    expect_equal(bench.read(y, COUNT), 2 * NUMBERS + 1, "a call after a refused one")


def regions_outside_their_memory_are_refused(bench: BackendBench) -> None:
    """Arguments and fills that begin or end behind a buffer."""
    args = InvokeArgs(x=bench.floats(NUMBERS), y=bench.device.allocate(4 * COUNT))
    far = 1 << 20
    for doing, step in (
        ("an argument behind its buffer", affine(y=BufferArg("y", far))),
        ("an argument before its buffer", affine(y=BufferArg("y", -512))),
        ("a fill behind its buffer", Fill("y", far, 4)),
        ("a fill past the end", Fill("y", 0, far)),
    ):
        refused(LaunchError, doing, bench.run, args, step)


def products_of_the_library_are_right(bench: BackendBench) -> None:
    """Transposed or not, in a batch, with rows that have gaps, scaled and added."""
    generator = np.random.default_rng(3)
    m, n, k, batch = 3, 4, 5, 2
    for turn_a, turn_b in ((False, False), (True, False), (False, True), (True, True)):
        a = generator.integers(-3, 4, (batch, *((k, m) if turn_a else (m, k)))).astype(np.float32)
        b = generator.integers(-3, 4, (batch, *((n, k) if turn_b else (k, n)))).astype(np.float32)
        c = generator.integers(-3, 4, (batch, m, n + 2)).astype(np.float32)
        gemm = LibraryGemm(
            *(m, n, k),
            _matrix("x", a),
            _matrix("w", b),
            _matrix("y", c, offset=512),
            *(turn_a, turn_b, batch),
            alpha=2.0,
            beta=-1.0,
        )
        try:
            invoker = bench.device.invoker([gemm], {})
        except (LaunchError, BackendUnavailableError) as error:
            raise Unsupported(str(error)) from error
        moved = np.concatenate([np.zeros(128, np.float32), c.ravel()])
        args = InvokeArgs(x=bench.floats(a), w=bench.floats(b), y=bench.floats(moved))
        invoker(args)
        turned = (np.swapaxes(a, 1, 2) if turn_a else a), (np.swapaxes(b, 1, 2) if turn_b else b)
        expected = c.copy()
        expected[:, :, :n] = 2 * (turned[0] @ turned[1]) - c[:, :, :n]
        found = bench.read(args.y, moved.size)[128:].reshape(c.shape)
        expect_equal(found, expected, f"a product with trans_a={turn_a}, trans_b={turn_b}")
        short = InvokeArgs(x=args.x, w=args.w, y=bench.device.allocate(512))
        refused(LaunchError, "a product past the end", invoker, short)


def epilogues_of_the_library_are_right(bench: BackendBench) -> None:
    """Bias, a tensor beside the result, and ReLU, each product of a batch with its own bias."""
    generator = np.random.default_rng(4)
    m, n, k, batch = 3, 4, 5, 2
    a, b, z, bias = (
        generator.integers(-3, 4, (batch, *shape)).astype(np.float32)
        for shape in ((m, k), (k, n), (m, n), (1, n))
    )
    gemm = LibraryGemm(
        *(m, n, k),
        _matrix("x", a),
        _matrix("w", b),
        _matrix("y", z),
        batch=batch,
        alpha=2.0,
        beta=-1.0,
        epilogue=GemmEpilogue(_matrix("bias", bias), _matrix("z", z), "relu"),
    )
    try:
        invoker = bench.device.invoker([gemm], {})
    except (LaunchError, BackendUnavailableError) as error:
        raise Unsupported(str(error)) from error
    named = {"x": a, "w": b, "bias": bias, "z": z}
    given = {name: bench.floats(values) for name, values in named.items()}
    args = InvokeArgs(y=bench.device.allocate(z.nbytes), **given)
    invoker(args)
    expected = np.maximum(2 * (a @ b) + bias - z, 0)
    expect_equal(bench.read(args.y, z.size).reshape(z.shape), expected, "a product with epilogue")


def _matrix(name: str, values: Any, offset: int = 0) -> Matrix:
    _, rows, columns = values.shape
    return Matrix(name, DataType.FLOAT32, columns, offset, rows * columns)


def _reversed() -> Any:
    return NUMBERS.reshape(-1, 16)[:, ::-1].ravel()


KERNEL_CHECKS = (
    a_binary_is_good_on_another_device_of_the_target,
    damaged_binaries_are_refused,
    a_build_error_has_source_options_and_log,
    programs_compile_side_by_side,
    numbers_of_every_type_reach_the_kernel,
    memory_of_any_name_reaches_its_argument,
    work_groups_share_local_memory,
    local_memory_may_be_an_argument,
    work_items_have_three_axes,
    steps_run_in_their_order,
    buffers_may_change_between_calls,
    invokers_of_one_kernel_are_apart,
    timing_runs_the_steps,
    impossible_launches_are_refused,
    missing_and_foreign_operands_are_named,
    regions_outside_their_memory_are_refused,
)
LIBRARY_CHECKS = (products_of_the_library_are_right, epilogues_of_the_library_are_right)
