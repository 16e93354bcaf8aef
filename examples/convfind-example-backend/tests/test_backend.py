"""The example keeps the contract of a backend, and computes convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import convfind
from convfind.checking.reference import reference_convolution
from convfind.errors import KernelBuildError
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins.registry import Registry
from convfind.solver import Solver
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.testing import assert_backend, assert_solver
from convfind_example_backend import hooks
from convfind_example_backend.backend import NumpyBackend
from convfind_example_backend.device import NumpyDevice

REGISTRY = Registry.build([hooks], load_entry_points=False)


@pytest.fixture
def device() -> Iterator[NumpyDevice]:
    opened = NumpyBackend().open()
    yield opened
    opened.close()


@pytest.fixture
def handle(device: NumpyDevice, tmp_path: Path) -> Handle:
    return handle_for(device, REGISTRY, convfind.Settings(user_db_path=tmp_path))


def test_the_conformance_kit_finds_nothing() -> None:
    report = assert_backend(NumpyBackend())
    assert "products of the library are right" in report.passed
    assert not report.skipped


@pytest.mark.parametrize("solver", REGISTRY.solvers, ids=lambda solver: solver.solver_id)
def test_the_gemm_solvers_are_right(solver: Solver, device: NumpyDevice) -> None:
    report = assert_solver(solver, device)
    assert len(report.problems) > 5


def test_the_hooks_register_a_backend_and_six_solvers() -> None:
    assert not REGISTRY.failures
    assert list(REGISTRY.backends) == ["numpy"]
    assert [solver.solver_id for solver in REGISTRY.solvers] == [
        f"numpy-gemm-{variant}-{direction}"
        for variant in ("pointwise", "im2col")
        for direction in ("fwd", "bwd-data", "bwd-weights")
    ]


@pytest.mark.parametrize("direction", list(convfind.Direction))
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_find_measures_verifies_and_runs(
    handle: Handle, direction: convfind.Direction, layout: str
) -> None:
    x, w = ((2, 4, 9, 8), (6, 4, 3, 3)) if layout == "NCHW" else ((2, 9, 8, 4), (6, 3, 3, 4))
    forward = convfind.ConvProblem.forward((2, 4, 9, 8), (6, 4, 3, 3), padding=1, layout=layout)
    problem = forward.with_direction(direction)
    found = handle.find(problem, mode="NORMAL")
    assert found.best.solver.startswith("numpy-gemm-im2col")
    generator = np.random.default_rng(5)
    y = (2, 6, 9, 8) if layout == "NCHW" else (2, 9, 8, 6)
    tensors = {
        name: generator.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", x), ("w", w), ("y", y))
        if name in direction.reads
    }
    result = handle.run(found.best, **tensors)
    first, second = (tensors[name] for name in direction.reads)
    np.testing.assert_allclose(result, reference_convolution(problem, first, second), atol=1e-4)


def test_an_unknown_kernel_file_is_refused_by_name(device: NumpyDevice) -> None:
    program = Program(KernelSource("convfind.testing", "kernels/mock.cl"))
    with pytest.raises(KernelBuildError, match=r"no function for .*mock.cl; it has: im2col_first"):
        device.compile(program)
