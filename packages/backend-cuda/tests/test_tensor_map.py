"""Maps of tensors reach the driver as it wants them, and kernels at the addresses of the call."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from cuda.bindings.driver import CUresult
from cuda_standin import StandinDriver

from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import Launch, TensorMapArg, Windows, i32
from convfind.types import DataType
from convfind_backend_cuda.device import CudaDevice
from convfind_backend_cuda.tensor_map import tensor_map

PROGRAM = Program(KernelSource("convfind", "kernel_include/convfind_kernel.h"))
#: 3 images of 6 x 7 with 8 channels, whose windows of 3 x 3 with stride 2 begin in the padding.
IMAGES = TensorMapArg(
    *("x", 0, DataType.FLOAT32),
    sizes=(8, 7, 6, 3),
    strides=(8, 56, 336),
    box=(8, 16),
    rounds=True,
    windows=Windows(first=(-1, -1), counts=(4, 3), steps=(2, 2)),
)
ROWS = TensorMapArg(*("w", 512, DataType.BFLOAT16), sizes=(8, 9, 5), strides=(8, 72), box=(8, 1, 5))


def test_windows_are_told_by_their_corners(driver: StandinDriver) -> None:
    tensor_map(IMAGES, 4096)
    # The last window of a row begins at 5, of 7 columns: one before the last; of 6 rows at 3.
    sizes, strides, first, last = [8, 7, 6, 3], [32, 224, 1344], [-1, -1], [-1, -2]
    tf32 = "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32"
    told = ("map", "im2col", tf32, 4096, sizes, strides, first, last, [1, 2, 2, 1])
    assert driver.journal == [told]


def test_boxes_are_told_in_bytes_and_elements(driver: StandinDriver) -> None:
    tensor_map(ROWS, 8192)
    kind = "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"
    told = ("map", "tiled", kind, 8192, [8, 9, 5], [16, 144], [8, 1, 5], [1, 1, 1])
    assert driver.journal == [told]


def test_kernels_have_maps_of_the_memory_of_the_call(
    driver: StandinDriver, device: CudaDevice
) -> None:
    seen: list[tuple[int, ...]] = []
    form = struct.Struct("<i124xQ120xQ120x")
    driver.kernels["kernel"] = ((4, 128, 128), lambda data: seen.append(form.unpack(data)))
    kernel = KernelSpec(PROGRAM, "kernel")
    step = Launch(kernel, (i32(7), IMAGES, ROWS), (64,), (64,))
    invoker = device.invoker([step], {PROGRAM: device.load_code(PROGRAM, b"")})
    x, w, other = (device.allocate(4096) for _ in range(3))
    run = device.addressed(invoker, {"w": w}, {"x": 4096})
    assert run is not None
    for place in (1 << 20, 1 << 21):
        run([place])
        assert seen[-1] == (7, place, w.address + 512)
    for one in (w, other):
        invoker(InvokeArgs(x=x, w=one))
        assert seen[-1] == (7, x.address, one.address + 512)
    run([1 << 20])
    made = [told[3] for told in driver.journal if told[0] == "map"]
    assert len(made) == len(set(made)) == 5  # one for each place


def test_what_the_driver_refuses_is_named(driver: StandinDriver) -> None:
    driver.failing["cuTensorMapEncode"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchError, match="tensor map of w"):
        tensor_map(replace(ROWS, offset=1), 3)
