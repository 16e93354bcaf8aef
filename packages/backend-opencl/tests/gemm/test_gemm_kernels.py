"""The GEMM kernels alone, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices_for_tests import as_written
from numpy.lib.stride_tricks import as_strided

from convfind.device.target import DeviceKind
from convfind.errors import DeviceError
from convfind.kit.gemm_lowering.product import Gemm, Operand
from convfind.runtime.backend import DeviceBuffer, InvokeArgs
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, Memory
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.gemm.cpu import CpuGemm, blocking
from convfind_backend_opencl.gemm.gpu import GpuGemm, Tile
from convfind_backend_opencl.gemm.kernel import GemmKernel, kernel_source

Array = np.ndarray[Any, Any]

CPU_CONFIGS = (
    Config(mr=12, vectors=2, depth=256, panel_floats=131072),
    Config(mr=5, vectors=1, depth=128, panel_floats=32768),
)
GPU_CONFIGS = (
    Tile(32, 32, 16, 8, 8).config,
    Tile(64, 128, 16, 8, 16).config,
    Tile(64, 64, 8, 8, 16, straight=0).config,
)
SIZES = (
    (1, 1, 1),
    (2, 3, 5),
    (64, 64, 64),
    (13, 97, 31),
    (1, 200, 17),
    (129, 1, 65),
    (40, 49, 300),
    (20, 100, 700),
    (7, 521, 2),
    (128, 128, 16),
)
CANARY = np.float32(12345.0)


class GemmRunner:
    """Runs products on one device; compiles each program once."""

    def __init__(self, device: OpenCLDevice) -> None:
        self.device = device
        self._loaded: dict[Program, object] = {}

    def run(self, launch: Launch, a: Array, b: Array, c: Array) -> Array:
        """Return what C is afterwards; the three are x, w and y of the launch."""
        program = launch.kernel.program
        if program not in self._loaded:
            self._loaded[program] = self.device.load(program, self._compiler(program)(program))
        buffers: dict[str, DeviceBuffer] = {}
        for name, array in {"x": a, "w": b, "y": c}.items():
            buffers[name] = self.device.allocate(array.nbytes)
            self.device.write(buffers[name], array)
        self.device.invoker([launch], self._loaded)(InvokeArgs(**buffers))
        result = np.empty_like(c)
        self.device.read(buffers["y"], result)
        return result

    def _compiler(self, program: Program) -> Callable[[Program], bytes]:
        is_cpu = self.device.target.kind is DeviceKind.CPU
        # What a CPU optimises is its own code, which never gets the kernels for GPUs.
        is_foreign = is_cpu and program.source == kernel_source("gemm_gpu")
        return as_written(self.device).compile if is_foreign else self.device.compile


@pytest.fixture(scope="session")
def gemm_runner(device: OpenCLDevice) -> GemmRunner:
    return GemmRunner(device)


def kernels(device: OpenCLDevice) -> Iterator[tuple[GemmKernel, Config]]:
    """Both kernels on a CPU, which runs the other's, too."""
    if device.target.kind is DeviceKind.CPU:
        yield from ((CpuGemm(), config) for config in CPU_CONFIGS)
    yield from ((GpuGemm(), config) for config in GPU_CONFIGS)


def placed(
    rng: np.random.Generator, memory: str, rows: int, columns: int, outer: int, inner: int
) -> tuple[Operand, int]:
    """Random gaps without overlap, and the elements that the operand spans."""
    gap, offset = rng.integers(0, 6, 4), int(rng.choice((0, 4, 7)))
    if rng.random() < 0.3:  # members side by side in a row
        ld = columns * inner + int(gap[0])
        step = columns
        turn = rows * ld + int(gap[1])
    else:
        ld = columns + int(gap[0])
        step = rows * ld + int(gap[1])
        turn = inner * step + int(gap[2])
    end = offset + (outer - 1) * turn + (inner - 1) * step + (rows - 1) * ld + columns
    return Operand(BufferArg(memory), ld, offset, turn, step), end


def viewed(memory: Array, operand: Operand, gemm: Gemm, rows: int, columns: int) -> Array:
    """The matrices of a batch inside their memory."""
    shape = (gemm.outer, gemm.inner, rows, columns)
    strides = [4 * step for step in (operand.outer, operand.inner, operand.ld, 1)]
    return as_strided(memory[operand.offset :], shape, strides)


def check(
    runner: GemmRunner, kernel: GemmKernel, config: Config, gemm: Gemm, ends: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    fills = (np.nan, np.nan, CANARY)
    memory = [np.full(end, fill, "f") for end, fill in zip(ends, fills, strict=True)]
    a_shape = (gemm.k, gemm.m) if gemm.trans_a else (gemm.m, gemm.k)
    b_shape = (gemm.n, gemm.k) if gemm.trans_b else (gemm.k, gemm.n)
    a, b, c = (
        viewed(array, operand, gemm, *shape)
        for array, operand, shape in zip(
            memory, (gemm.a, gemm.b, gemm.c), (a_shape, b_shape, (gemm.m, gemm.n)), strict=True
        )
    )
    for view in (a, b, c):
        view[...] = rng.integers(-4, 5, view.shape)
    left = a.swapaxes(2, 3) if gemm.trans_a else a
    right = b.swapaxes(2, 3) if gemm.trans_b else b
    expected = memory[2].copy()
    product = gemm.alpha * (left.astype("d") @ right.astype("d"))
    target = viewed(expected, gemm.c, gemm, gemm.m, gemm.n)
    target[...] = product + (gemm.beta * c if gemm.beta else 0.0)
    if gemm.beta == 0.0:
        c[...] = np.nan  # must not be read
    launch = kernel.launch(gemm, runner.device.target, config)
    assert np.array_equal(runner.run(launch, *memory), expected), (gemm, config)


@pytest.mark.parametrize("trans_b", [False, True], ids=["n", "t"])
@pytest.mark.parametrize("trans_a", [False, True], ids=["n", "t"])
def test_products_are_exact_on_whole_numbers(
    trans_a: bool, trans_b: bool, gemm_runner: GemmRunner
) -> None:
    rng = np.random.default_rng(7)
    for kernel, config in kernels(gemm_runner.device):
        for number, (m, n, k) in enumerate(SIZES):
            outer, inner = ((1, 1), (3, 1), (1, 2), (2, 3))[number % 4]
            a, a_end = placed(rng, Memory.X, *((k, m) if trans_a else (m, k)), outer, inner)
            b, b_end = placed(rng, Memory.W, *((n, k) if trans_b else (k, n)), outer, inner)
            c, c_end = placed(rng, Memory.Y, m, n, outer, inner)
            alpha, beta = ((1.0, 0.0), (-0.5, 0.25), (2.0, 1.0))[number % 3]
            gemm = Gemm(m, n, k, a, b, c, trans_a, trans_b, outer, inner, alpha, beta)
            check(gemm_runner, kernel, config, gemm, (a_end, b_end, c_end))


def test_every_work_item_of_a_cpu_may_be_small(gemm_runner: GemmRunner) -> None:
    if gemm_runner.device.target.kind is not DeviceKind.CPU:
        pytest.skip("is about CPUs")
    x, w, y = (BufferArg(memory) for memory in (Memory.X, Memory.W, Memory.Y))
    gemm = Gemm(100, 300, 70, Operand(x, 70), Operand(w, 300), Operand(y, 300))
    device = gemm_runner.device
    for cores in (1, 2, 64):
        target = replace(device.target, compute_units=cores)
        launch = CpuGemm().launch(gemm, target, CPU_CONFIGS[0])
        a, b = (np.random.default_rng(2).integers(-4, 5, n).astype("f") for n in (7000, 21000))
        result = gemm_runner.run(launch, a, b, np.empty(30000, "f"))
        assert np.array_equal(result.reshape(100, 300), a.reshape(100, 70) @ b.reshape(70, 300))


def test_offsets_beyond_two_gibi_elements(gemm_runner: GemmRunner) -> None:
    device = gemm_runner.device
    far = 2**31 + 4096
    memory = np.zeros(far + 4096, "f")  # pages that nobody touches do not exist
    start = -memory.__array_interface__["data"][0] % 4096 // 4
    memory = memory[start : start + far]
    try:
        buffer = device.wrap_output(memory)
    except DeviceError as error:
        pytest.skip(f"no memory of {memory.nbytes} bytes: {error}")
    if buffer is None:
        pytest.skip("the device does not share the host's memory")
    m, n, k = 5, 33, 17
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype("f") for shape in ((m, k), (k, n)))
    memory[far - m * k :] = a.ravel()
    x, w, y = (BufferArg(name) for name in (Memory.X, Memory.W, Memory.Y))
    gemm = Gemm(m, n, k, Operand(x, k, far - m * k), Operand(w, n), Operand(y, n))
    for kernel, config in kernels(device):
        launch = kernel.launch(gemm, device.target, config)
        program = launch.kernel.program
        loaded = device.load(program, device.compile(program))
        args = InvokeArgs(x=buffer, w=device.upload(b), y=device.allocate(4 * m * n))
        device.invoker([launch], {program: loaded})(args)
        result = np.empty((m, n), "f")
        assert args.y is not None
        device.read(args.y, result)
        assert np.array_equal(result, a @ b)


@pytest.mark.parametrize("cores", [1, 2, 16, 192])
@pytest.mark.parametrize("size", SIZES)
def test_blocks_of_a_cpu_fit_its_panel(size: tuple[int, int, int], cores: int) -> None:
    x = Operand(BufferArg(Memory.X), 1)
    gemm = Gemm(*size, x, x, x)
    for config in CPU_CONFIGS:
        cut = blocking(gemm, config, cores)
        assert cut.depth <= config.integer("depth")
        assert cut.depth * cut.strip <= config.integer("panel_floats")
        assert cut.strip % (16 * config.integer("vectors")) == 0
        assert cut.share % config.integer("mr") == 0
