"""Programs to binaries and back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from opencl_testing import Runner

from convfind.errors import KernelBuildError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, f32
from convfind_backend_opencl.device import OpenCLDevice

STEPS = KernelSource("opencl_test_kernels", "steps.cl")
BROKEN = Program(KernelSource("opencl_test_kernels", "broken.cl"))
AFFINE = (BufferArg(Memory.X), BufferArg(Memory.Y), f32(2.0), f32(1.0))

LOAD_ELSEWHERE = """
import sys
from pathlib import Path
import numpy as np
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, f32
from convfind_backend_opencl import OpenCLBackend

binary, number = Path(sys.argv[1]).read_bytes(), sys.argv[2]
program = Program(KernelSource("opencl_test_kernels", "steps.cl"))
device = next(
    device for index in range(len(OpenCLBackend().targets()))
    if (device := OpenCLBackend().open(str(index))).target.identity == number
)
arguments = (BufferArg(Memory.X), BufferArg(Memory.Y), f32(2.0), f32(1.0))
launch = Launch(KernelSpec(program, "affine"), arguments, (16,), (4,))
invoker = device.invoker([launch], {program: device.load(program, binary)})
x, y = np.arange(16, dtype=np.float32), np.empty(16, np.float32)
args = InvokeArgs(x=device.upload(x), y=device.allocate(y.nbytes))
invoker(args)
device.read(args.y, y)
print(*y.astype(int))
"""


def run_affine(device: OpenCLDevice, program: Program, binary: bytes) -> list[float]:
    launch = Launch(KernelSpec(program, "affine"), AFFINE, (16,), (4,))
    invoker = device.invoker([launch], {program: device.load(program, binary)})
    x, y = np.arange(16, dtype=np.float32), np.empty(16, np.float32)
    args = InvokeArgs(x=device.upload(x), y=device.allocate(y.nbytes))
    invoker(args)
    assert args.y is not None
    device.read(args.y, y)
    return [float(value) for value in y]


def test_macros_reach_the_compiler(device: OpenCLDevice) -> None:
    program = Program(STEPS, defines=make_defines(FACTOR=3))
    result = run_affine(device, program, device.compile(program))
    assert result == [3.0 * (2 * value + 1) for value in range(16)]


def test_a_binary_loads_in_a_new_process(
    device: OpenCLDevice, runner: Runner, python: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "affine.bin"
    file.write_bytes(device.compile(runner.program))
    printed = python(LOAD_ELSEWHERE, str(file), device.target.identity)
    assert printed.split("\n")[-1].split() == [str(2 * value + 1) for value in range(16)]


def test_a_build_error_carries_log_options_and_source(device: OpenCLDevice) -> None:
    with pytest.raises(KernelBuildError) as caught:
        device.compile(BROKEN)
    assert "undeclared_name" in caught.value.log
    assert caught.value.source == "opencl_test_kernels/broken.cl"
    assert "-cl-std=CL1.2" in caught.value.options
    assert "undeclared_name" in str(caught.value)


def test_a_program_may_choose_its_language_version(device: OpenCLDevice) -> None:
    program = Program(BROKEN.source, options=("-cl-std=CL1.1",))
    with pytest.raises(KernelBuildError) as caught:
        device.compile(program)
    assert [word for word in caught.value.options if "-cl-std" in word] == ["-cl-std=CL1.1"]


def test_hip_is_refused(device: OpenCLDevice) -> None:
    with pytest.raises(KernelBuildError, match="not hip"):
        device.compile(Program(STEPS, KernelLanguage.HIP))


@pytest.mark.parametrize("damage", ["empty", "garbage", "truncated", "flipped", "no header"])
def test_a_damaged_binary_is_refused(device: OpenCLDevice, runner: Runner, damage: str) -> None:
    good = device.compile(runner.program)
    middle = len(good) // 2
    bad = {
        "empty": b"",
        "garbage": b"garbage" * 100,
        "truncated": good[:middle],
        "flipped": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        "no header": good[34:],
    }[damage]
    with pytest.raises(KernelBuildError, match="compile it again"):
        device.load(runner.program, bad)
    assert device.load(runner.program, good) is not None


def test_several_threads_may_compile_at_once(device: OpenCLDevice) -> None:
    factors = range(2, 6)
    programs = [Program(STEPS, defines=make_defines(FACTOR=factor)) for factor in factors]
    with ThreadPoolExecutor(4) as pool:
        binaries = list(pool.map(device.compile, programs))
    for factor, program, binary in zip(factors, programs, binaries, strict=True):
        assert run_affine(device, program, binary)[1] == 3.0 * factor


def test_the_build_log_is_kept(device: OpenCLDevice) -> None:
    program = Program(STEPS, defines=make_defines(FACTOR=7))
    assert device.build_log(program) == ""
    device.compile(program)
    if device.target.has("nv-ptx"):
        assert "registers" in device.build_log(program)
    elif device.target.platform == "Intel(R) OpenCL":
        assert "spin" in device.build_log(program)


@pytest.mark.parametrize("spoiled", ["folder", "file"])
def test_the_cache_of_pyopencl_is_never_fatal(
    device: OpenCLDevice, tmp_path: Path, python: Callable[..., str], spoiled: str
) -> None:
    """A home folder that is read-only, and a file of it that is damaged."""
    program, home = Program(STEPS), tmp_path / "home"
    binary = tmp_path / "binary"
    binary.write_bytes(device.compile(program))
    words = (LOAD_ELSEWHERE, str(binary), device.target.identity)
    # PoCL has a cache of its own, without which it shows no device.
    folders = {"XDG_CACHE_HOME": str(home), "POCL_CACHE_DIR": str(tmp_path)}
    if spoiled == "folder":
        home.write_text("no folder")
    else:
        expected = python(*words, **folders)
        (cache,) = home.glob("pytools/pdict*invoker*")
        cache.write_bytes(b"no database" * 1000)
    printed = python(*words, **folders)
    assert printed == " ".join(str(2 * number + 1) for number in range(16))
    assert spoiled == "folder" or printed == expected
