"""Floats as the kernels hand them to NVIDIA's matrix units, which cut them off; on CPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import pytest
from numpy.typing import NDArray

from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory

pytest_plugins = ["convfind.testing.fixtures"]


@dataclass(frozen=True, slots=True)
class NearAlone(KernelSource):
    """The function that rounds, in a kernel of its own."""

    @property
    def text(self) -> str:
        nvidia = files("convfind").joinpath("kernel_include/convfind_nvidia.h").read_text()
        (near,) = re.findall(r"^CF_INLINED CF_UINT cf_tf32_near\b.*?}$", nvidia, re.M | re.S)
        return f"""{KernelSource("convfind", "kernel_include/convfind_kernel.h").text}
#define CF_INLINED CF_INLINE
{near}
CF_KERNEL void near(CF_GLOBAL const CF_UINT *x, CF_GLOBAL CF_UINT *y) {{
  y[CF_GLOBAL_ID(0)] = cf_tf32_near(x[CF_GLOBAL_ID(0)]);
}}
"""


def handed_over(device: Device, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what is left of floats once they are rounded and cut off."""
    program = Program(NearAlone("convfind_solvers_igemm", ""))
    launch = Launch(
        KernelSpec(program, "near"), (BufferArg(Memory.X), BufferArg(Memory.Y)), (x.size,), (1,)
    )
    loaded = device.load(program, device.compile(program))
    args = InvokeArgs(x=device.upload(x), y=device.upload(np.zeros_like(x)))
    device.invoker((launch,), {program: loaded})(args)
    device.synchronize()
    found = np.empty_like(x)
    assert args.y is not None
    device.read(args.y, found)
    return (found.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def test_rounding_is_near_and_has_no_bias(convfind_device: Device) -> None:
    rng = np.random.default_rng(0)
    x = (2.0 ** rng.uniform(-20, 20, 1 << 18)).astype(np.float32)
    found = np.concatenate([handed_over(convfind_device, sign * x) for sign in (1, -1)])
    errors = np.abs(found) / np.tile(x, 2).astype(np.float64) - 1
    assert np.abs(errors).max() < 2.0**-10.6
    assert np.abs(errors).max() > 2.0**-12  # not what was there before
    assert abs(errors.mean()) < 2e-5  # cut off alone: -3.5e-4


def test_tf32_numbers_infinities_and_nan_stay(convfind_device: Device) -> None:
    steps = np.arange(1024, dtype=np.uint32) << 13
    exponents = np.array([1, 64, 127, 128, 200, 253], np.uint32) << 23
    numbers = (steps[:, None] | exponents).ravel().view(np.float32)
    numbers = np.concatenate([numbers, -numbers, np.array([0, np.inf, -np.inf], np.float32)])
    found = handed_over(convfind_device, numbers)
    assert (found.view(np.uint32) == numbers.view(np.uint32)).all()
    nan = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000, 0xFFC00000], np.uint32)
    assert np.isnan(handed_over(convfind_device, nan.view(np.float32))).all()


@pytest.mark.parametrize("exponent", [-126, 0, 100])
def test_halves_of_a_step_go_to_a_neighbour(exponent: int, convfind_device: Device) -> None:
    step = 2.0 ** (exponent - 10)
    x = (2.0**exponent + np.arange(1, 2048, 2) * (step / 2)).astype(np.float32)
    found = handed_over(convfind_device, x).astype(np.float64)
    assert (np.abs(found - x) == step / 2).all()
