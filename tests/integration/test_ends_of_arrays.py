"""Arrays that end where the process has no memory: kernels on CPUs read nothing behind them."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Runs every solution for what ``sys.argv`` says on arrays that a page without access follows.
SCRIPT = """
import ctypes, mmap, sys
import numpy as np
import convfind
from convfind.checking.reference import reference_convolution

def at_the_end(shape):
    size = 4 * int(np.prod(shape))
    whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, whole + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    behind = ctypes.c_void_p(address + whole)
    assert ctypes.CDLL(None).mprotect(behind, mmap.PAGESIZE, 0) == 0
    array = np.frombuffer(memory, np.float32, size // 4, whole - size).reshape(shape)
    array[...] = np.random.default_rng(size).standard_normal(shape)
    return array

def channels_last(shape):
    return (shape[0], *shape[2:], shape[1])

direction, *numbers = sys.argv[1:]
x, w, groups, stride = map(eval, numbers)
options = {"groups": groups, "stride": stride, "layout": "NHWC", "add": direction == "forward"}
problem = convfind.ConvProblem.create(direction, x, w, **options)
names = (*problem.direction.reads, *"z" * problem.add)
shapes = {name: problem.y_shape if name == "z" else problem.shape(name) for name in names}
arrays = {name: at_the_end(channels_last(shape)) for name, shape in shapes.items()}
right = reference_convolution(problem, *arrays.values())
result = at_the_end(right.shape)
with convfind.open("opencl:cpu") as handle:
    for solution in handle.find(problem, "FAST", use_db=False).solutions:
        print(solution.solver, flush=True)
        result[...] = np.nan
        handle.run(solution, **arrays, out=result)
        np.testing.assert_allclose(result, right, atol=1e-3)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="takes access from pages as Linux does")
@pytest.mark.parametrize(
    ("direction", "x", "w", "groups", "stride", "solver"),
    [
        # Vectors of channels reach behind the last pixel of what is added, but not of what is read.
        ("forward", (1, 20, 18, 34), (20, 1, 3, 3), 20, 2, "direct-cpu-nhwc-fwd"),
        ("forward", (1, 21, 9, 10), (42, 1, 3, 3), 21, 1, "direct-cpu-nhwc-fwd"),
        ("forward", (2, 3, 7, 5), (12, 1, 3, 3), 3, 2, "direct-cpu-nhwc-fwd"),
        ("forward", (4, 20, 1, 1), (36, 20, 1, 1), 1, 1, "igemm-cpu-nhwc-fwd-few"),
        # What several filters a channel share is half or a quarter of a vector.
        ("backward-data", (1, 21, 9, 10), (42, 1, 3, 3), 21, 1, "direct-cpu-nhwc-bwd-data"),
        ("backward-data", (2, 3, 7, 5), (12, 1, 3, 3), 3, 2, "direct-cpu-nhwc-bwd-data"),
        ("backward-weights", (1, 21, 9, 10), (42, 1, 3, 3), 21, 1, "direct-cpu-nhwc-bwd-weights"),
        ("backward-weights", (2, 3, 7, 5), (12, 1, 3, 3), 3, 2, "direct-cpu-nhwc-bwd-weights"),
    ],
)
def test_nothing_behind_an_array_is_read(
    direction: str, x: tuple[int, ...], w: tuple[int, ...], groups: int, stride: int, solver: str
) -> None:
    words = map(str, (direction, x, w, groups, stride))
    ran = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True)
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    assert solver in ran.stdout
