"""Running solutions: what goes in and out, bound weights, workspace, memory on the device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.checking.reference import reference_convolution
from convfind.errors import DeviceError, ProblemError, SolutionError
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.runtime.tensors import DeviceTensor
from convfind.settings import Settings
from convfind.testing import MockBackend, mock_solvers

Array = np.ndarray[Any, Any]
PROBLEM = ConvProblem.forward(x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1)


class Plugin:
    """The mock solvers."""

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend(mock_solvers())


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[Handle]:
    registry = Registry.build([Plugin()], load_entry_points=False)
    with handle_for(MockBackend().open(), registry, Settings(user_db_path=tmp_path)) as opened:
        yield opened


def _tensors(problem: ConvProblem) -> dict[str, Array]:
    generator = np.random.default_rng(7)
    return {
        name: generator.standard_normal(
            problem.tensor_layout(name).to_memory(problem.shape(name))
        ).astype(np.float32)
        for name in problem.direction.reads
    }


def _close(result: Any, problem: ConvProblem, tensors: dict[str, Array], **kwargs: Any) -> None:
    expected = reference_convolution(problem, *tensors.values(), **kwargs)
    assert np.allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize("direction", ["forward", "backward-data", "backward-weights"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_arrays_in_and_out(handle: Handle, direction: str, layout: str) -> None:
    problem = ConvProblem.create(
        direction, (2, 4, 6, 5), (8, 4, 3, 3), padding=1, stride=2, layout=layout
    )
    tensors = _tensors(problem)
    result = handle.run(handle.find(problem).best, **tensors)
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    _close(result, problem, tensors)


def test_channels_last_tensors_may_show_their_axes_as_frameworks_do(handle: Handle) -> None:
    problem = ConvProblem.forward(x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1, layout="NHWC")
    tensors = _tensors(problem)
    shown = {name: np.moveaxis(tensor, -1, 1) for name, tensor in tensors.items()}
    result = handle.run(handle.find(problem).best, **shown)
    _close(result, problem, tensors)


def test_an_output_array_is_written_in_place(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    out = np.full(PROBLEM.y_shape, np.nan, np.float32)
    assert handle.run(handle.find(PROBLEM).best, **tensors, out=out) is out
    _close(out, PROBLEM, tensors)


def test_an_output_that_is_not_contiguous_is_written_too(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    wide = np.full((*PROBLEM.y_shape[:-1], 2 * PROBLEM.y_shape[-1]), np.nan, np.float32)
    out = wide[..., ::2]
    handle.run(handle.find(PROBLEM).best, **tensors, out=out)
    _close(out, PROBLEM, tensors)
    assert np.isnan(wide[..., 1::2]).all()


def test_beta_reads_the_output(handle: Handle) -> None:
    problem = ConvProblem.forward(x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1, beta=2.0)
    tensors = _tensors(problem)
    best = handle.find(problem).best
    out = np.ones(problem.y_shape, np.float32)
    handle.run(best, **tensors, out=out)
    _close(out, problem, tensors, out=np.ones(problem.y_shape))
    with pytest.raises(ProblemError, match=r"out.*beta"):
        handle.run(best, **tensors)


def test_tensors_with_gaps(handle: Handle) -> None:
    wide = np.random.default_rng(1).standard_normal((2, 4, 6, 10)).astype(np.float32)
    strides = tuple(step // 4 for step in wide[..., ::2].strides)
    problem = ConvProblem.forward(x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1, x_strides=strides)
    tensors = {"x": wide[..., ::2], "w": _tensors(PROBLEM)["w"]}
    _close(handle.run(handle.find(problem).best, **tensors), problem, tensors)


def test_tensors_of_a_framework_through_dlpack(handle: Handle) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensors = _tensors(PROBLEM)
    given = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    out = torch.empty(PROBLEM.y_shape)
    assert handle.run(handle.find(PROBLEM).best, **given, out=out) is out
    _close(out.numpy(), PROBLEM, tensors)


def test_memory_on_the_device_stays_there(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    given = {name: handle.tensor(tensor) for name, tensor in tensors.items()}
    best = handle.find(PROBLEM).best
    result = handle.run(best, **given)
    assert isinstance(result, DeviceTensor)
    _close(handle.to_numpy(result), PROBLEM, tensors)
    handle.run(best, **given, out=result)
    _close(handle.to_numpy(result), PROBLEM, tensors)


def test_a_result_with_gaps_keeps_them_on_the_device(handle: Handle) -> None:
    problem = ConvProblem.forward(
        x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1, y_strides=(480, 60, 10, 2)
    )
    tensors = _tensors(problem)
    given = {name: handle.tensor(tensor) for name, tensor in tensors.items()}
    result = handle.run(handle.find(problem).best, **given)
    _close(handle.to_numpy(result), problem, tensors)
    with pytest.raises(ProblemError, match="strides"):
        handle.run(handle.find(PROBLEM).best, **given, out=result)


def test_memory_that_a_backend_does_not_share_says_what_to_do(handle: Handle) -> None:
    tensor = handle.tensor(np.zeros(3, np.float32))
    with pytest.raises(BufferError, match=r"MockBuffer.*to_numpy"):
        np.from_dlpack(tensor)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="to_numpy"):
        handle.tensor(tensor)


def test_bound_weights_are_packed_once_and_kept(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    found = handle.find(PROBLEM, solvers=["mock-packing"], constant_weights=True)
    weights = tensors["w"].copy()
    bound = handle.bind(found.best, w=weights)
    weights[...] = 0
    for _ in range(2):
        _close(bound.run(x=tensors["x"]), PROBLEM, tensors)
    plain = handle.bind(handle.find(PROBLEM, solvers=["mock-dynamic"]).best, w=tensors["w"])
    _close(plain.run(x=tensors["x"]), PROBLEM, tensors)
    with pytest.raises(ProblemError, match="bound"):
        bound.run(**tensors)


def test_an_unbound_run_packs_every_time(handle: Handle) -> None:
    best = handle.find(PROBLEM, solvers=["mock-packing"]).best
    tensors = _tensors(PROBLEM)
    _close(handle.run(best, **tensors), PROBLEM, tensors)
    tensors["w"] = -tensors["w"]
    _close(handle.run(best, **tensors), PROBLEM, tensors)


def test_weights_cannot_be_bound_where_they_are_the_result(handle: Handle) -> None:
    best = handle.find(PROBLEM.with_direction("backward-weights")).best
    with pytest.raises(ProblemError, match="writes w"):
        handle.bind(best, w=_tensors(PROBLEM)["w"])


W = np.zeros((8, 4, 3, 3), np.float32)
X = np.zeros((2, 4, 6, 5), np.float32)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"x": X}, "w: None"),
        ({"w": W}, "x: None"),
        ({"x": X, "w": W, "y": X}, "y.*use out="),
        ({"x": X[:1], "w": W}, r"x: \(1, 4, 6, 5\).*\(2, 4, 6, 5\)"),
        ({"x": X, "w": W[0]}, "w: "),
        ({"x": X.astype(np.float64), "w": W}, "float64.*float32"),
        ({"x": X, "w": "weights"}, "w"),
        ({"x": X, "w": object()}, "DLPack"),
        ({"x": X, "w": W, "out": [1.0]}, "out.*writable"),
        ({"x": X, "w": W, "out": np.zeros((2, 8, 6, 4), np.float32)}, "y: .*2, 8, 6, 5"),
    ],
)
def test_wrong_tensors_are_refused_naming_the_field(
    handle: Handle, tensors: dict[str, Any], words: str
) -> None:
    with pytest.raises(ProblemError, match=words):
        handle.run(handle.find(PROBLEM).best, **tensors)


def test_a_read_only_output_is_refused(handle: Handle) -> None:
    out = np.zeros(PROBLEM.y_shape, np.float32)
    out.flags.writeable = False
    with pytest.raises(ProblemError, match="read-only"):
        handle.run(handle.find(PROBLEM).best, x=X, w=W, out=out)


def test_a_tensor_on_another_device_is_refused(handle: Handle) -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(DeviceError, match="DLPack device 2:0"):
        handle.run(handle.find(PROBLEM).best, x=Elsewhere(), w=W)


def test_a_solution_of_a_solver_that_is_gone_says_so(handle: Handle) -> None:
    from dataclasses import replace

    best = replace(handle.find(PROBLEM).best, solver="mock-gone")
    with pytest.raises(SolutionError, match="mock-gone"):
        handle.run(best, x=X, w=W)
