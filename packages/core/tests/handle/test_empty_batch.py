"""Problems with a batch of 0: answered and run without a launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.types import ConvMode, Direction

X, W = (0, 4, 6, 5), (8, 4, 3, 3)


def empty(direction: Direction | str, **options: Any) -> ConvProblem:
    return ConvProblem.create(direction, X, W, padding=1, **options)


def given_to(problem: ConvProblem) -> dict[str, Any]:
    return {
        name: np.ones(problem.tensor_layout(name).to_memory(problem.shape(name)), np.float32)
        for name in problem.direction.reads
    }


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("mode", list(ConvMode))
def test_the_result_is_empty_or_zero(
    mock_handle: Handle, direction: Direction, layout: str, mode: ConvMode
) -> None:
    w = W if mode is ConvMode.CONVOLUTION else (4, 8, 3, 3)
    problem = ConvProblem.create(direction, X, w, layout=layout, mode=mode)
    found = mock_handle.find(problem, mode="NORMAL")
    assert (found.measured, len(found.solutions)) == (0, 1)
    tensors = given_to(problem)
    name = direction.writes
    expected = np.zeros(problem.tensor_layout(name).to_memory(problem.shape(name)))
    result = mock_handle.run(found.best, **tensors)
    np.testing.assert_array_equal(result, expected)
    on_device = {name: mock_handle.tensor(array) for name, array in tensors.items()}
    result = mock_handle.to_numpy(mock_handle.run(found.best, **on_device))
    np.testing.assert_array_equal(result, expected)
    out = np.full(expected.shape, 7, np.float32)
    assert mock_handle.run(found.best, **tensors, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("beta", [1.0, -0.5])
def test_beta_scales_what_was_there_and_gaps_stay(mock_handle: Handle, beta: float) -> None:
    problem = empty("backward-weights", beta=beta, w_strides=(80, 20, 6, 2))
    memory = np.arange(640, dtype=np.float32)
    expected = memory.copy()
    for array in (memory, expected):
        out = np.ndarray(W, np.float32, array.data, 0, (320, 80, 24, 8))
        if array is memory:
            mock_handle.run(mock_handle.find(problem).best, **given_to(problem), out=out)
        else:
            out *= np.float32(beta)
    np.testing.assert_array_equal(memory, expected)


def test_nothing_is_compiled_launched_or_recorded(mock_handle: Handle) -> None:
    problem = empty("backward-weights")
    device: Any = mock_handle.session.device
    mock_handle.run(mock_handle.find(problem, mode="NORMAL").best, **given_to(problem))
    assert (device.counters.compiles, device.counters.launches) == (0, 0)
    assert not list(mock_handle.database.entries())


def test_bound_and_saved_solutions_work(mock_handle: Handle, tmp_path: Path) -> None:
    problem = empty("forward")
    best = mock_handle.miopen.solutions(problem)[0]
    best.save(tmp_path / "solution.json")
    loaded = Solution.load(tmp_path / "solution.json")
    bound = mock_handle.bind(loaded, w=np.ones(W, np.float32))
    assert bound.run(x=np.ones(X, np.float32)).shape == (0, 8, 6, 5)
    assert mock_handle.miopen.workspace_size(problem) == 0
