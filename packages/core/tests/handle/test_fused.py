"""Running problems with a bias, an added tensor and an activation: operands, binding, in place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convfind.checking.random_data import random_operands
from convfind.checking.reference import reference_convolution
from convfind.errors import NoSolverError, ProblemError
from convfind.find.result import FindOrigin
from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.problem import Activation, ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.settings import Settings
from convfind.testing import MockBackend
from convfind.testing.solvers import MockFused

Array = np.ndarray[Any, Any]
LEAKY = Activation("leaky", 0.25)


class OneSolver:
    """A solver that knows epilogues, as a plugin."""

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.add(MockFused())


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[Handle]:
    registry = Registry.build([OneSolver()], load_entry_points=False)
    with handle_for(MockBackend().open(), registry, Settings(user_db_path=tmp_path)) as opened:
        yield opened


def layer(**more: Any) -> ConvProblem:
    options = {"padding": 1, "bias": True, "add": True, "activation": LEAKY, **more}
    return ConvProblem.forward((2, 4, 6, 5), (8, 4, 3, 3), **options)


def right(problem: ConvProblem, tensors: dict[str, Array]) -> Array:
    first, second = (tensors[name] for name in problem.direction.reads)
    return reference_convolution(problem, first, second, tensors.get("z"), tensors.get("bias"))


def close(result: Any, expected: Array) -> bool:
    return bool(np.allclose(np.asarray(result), expected, atol=1e-4))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("mode", ["conv", "transpose"])
def test_a_run_takes_what_is_added(handle: Handle, layout: str, mode: str) -> None:
    w = (8, 4, 3, 3) if mode == "conv" else (4, 8, 3, 3)
    problem = ConvProblem.forward(
        *((2, 4, 6, 5), w), layout=layout, mode=mode, bias=True, add=True, activation=LEAKY
    )
    tensors = random_operands(problem, 1)
    found = handle.find(problem)
    assert found.problem == found.best.problem == problem.text
    assert close(handle.run(found.best, **tensors), right(problem, tensors))


def test_numbers_of_an_activation_are_kept_by_solutions_and_share_a_record(
    handle: Handle, tmp_path: Path
) -> None:
    tensors = random_operands(layer(), 1)
    handle.find(layer(), mode="NORMAL")
    for slope in (0.25, 0.75, 0.01):
        problem = layer(activation=Activation("leaky", slope))
        found = handle.find(problem)
        assert found.origin is FindOrigin.USER_DB
        found.best.save(tmp_path / "solution.json")
        restored = Solution.load(tmp_path / "solution.json")
        for solution in (found.best, restored):
            assert close(handle.run(solution, **tensors), right(problem, tensors))


def test_bound_weights_and_bias_are_left_out(handle: Handle) -> None:
    problem = layer()
    tensors = random_operands(problem, 1)
    best = handle.find(problem).best
    for names in (("w",), ("w", "bias")):
        bound = handle.bind(best, **{name: tensors[name] for name in names})
        others = {name: array for name, array in tensors.items() if name not in names}
        assert close(bound.run(**others), right(problem, tensors))
        with pytest.raises(ProblemError, match=f"{names[-1]}.*bound"):
            bound.run(**others, **{names[-1]: tensors[names[-1]]})


def test_a_bias_is_bound_as_a_copy(handle: Handle) -> None:
    problem = layer()
    tensors = random_operands(problem, 1)
    expected = right(problem, tensors)
    bias = tensors["bias"].copy()
    bound = handle.bind(handle.find(problem).best, w=tensors["w"], bias=bias)
    bias[...] = 1000
    assert close(bound.run(x=tensors["x"], z=tensors["z"]), expected)


def test_what_is_added_may_be_the_result_itself(handle: Handle) -> None:
    problem = layer()
    tensors = random_operands(problem, 1)
    expected = right(problem, tensors)
    best = handle.find(problem).best
    for part in (None, slice(None)):  # the array itself, and a view of all of it
        z = tensors["z"].copy()
        same = z if part is None else z[part]
        result = handle.run(best, **{**tensors, "z": same}, out=z)
        assert result is z
        assert close(z, expected)
    on_device = {name: handle.tensor(array) for name, array in tensors.items()}
    result = handle.run(best, **on_device, out=on_device["z"])
    assert close(handle.to_numpy(result), expected)


def test_what_is_added_behind_the_activation_is_not_the_result(handle: Handle) -> None:
    problem = layer(add_last=True)
    tensors = random_operands(problem, 1)
    best = handle.find(problem).best
    z = tensors["z"]
    out = np.full_like(z, np.nan)
    assert close(handle.run(best, **tensors, out=out), right(problem, tensors))
    for same in (z, z[:]):
        with pytest.raises(ProblemError, match="out: 'memory of z'"):
            handle.run(best, **tensors, out=same)
    on_device = {name: handle.tensor(array) for name, array in tensors.items()}
    with pytest.raises(ProblemError, match="out: 'memory of"):
        handle.run(best, **on_device, out=on_device["z"])


def test_a_result_in_gaps_of_the_callers_memory_may_be_what_is_added(handle: Handle) -> None:
    problem = layer()
    tensors = random_operands(problem, 1)
    wide = np.zeros((2, 8, 6, 10), np.float32)
    z = wide[..., ::2]
    z[...] = tensors["z"]
    handle.run(handle.find(problem).best, **{**tensors, "z": z}, out=z)
    assert close(z, right(problem, tensors))
    assert not wide[..., 1::2].any()


def test_a_result_that_shares_only_a_part_with_what_is_added_is_refused(handle: Handle) -> None:
    problem = layer()
    tensors = random_operands(problem, 1)
    wide = np.zeros((3, 8, 6, 5), np.float32)
    with pytest.raises(ProblemError, match="out: 'memory of z'"):
        handle.run(handle.find(problem).best, **{**tensors, "z": wide[:2]}, out=wide[1:])


def test_what_is_missing_too_much_or_of_another_form_is_named(handle: Handle) -> None:
    problem = layer()
    tensors = random_operands(problem, 1)
    best = handle.find(problem).best
    for name in ("bias", "z"):
        with pytest.raises(ProblemError, match=f"{name}: None .* reads {name}"):
            handle.run(best, **{n: array for n, array in tensors.items() if n != name})
    for name, wrong in (
        ("bias", np.zeros(4, np.float32)),
        ("bias", np.zeros((1, 8, 1, 1), np.float32)),
        ("bias", np.zeros(8, np.float64)),
        ("z", np.zeros((2, 8, 6, 4), np.float32)),
        ("z", np.zeros((2, 8, 6, 5), np.float16)),
    ):
        with pytest.raises(ProblemError, match=name):
            handle.run(best, **{**tensors, name: wrong})
    plain = handle.find(layer(bias=False, add=False, activation=None)).best
    with pytest.raises(ProblemError, match=r"bias.*the problem has none; it is one with bias=True"):
        handle.run(plain, x=tensors["x"], w=tensors["w"], bias=tensors["bias"])
    with pytest.raises(ProblemError, match=r"bias.*the problem has none"):
        handle.bind(plain, w=tensors["w"], bias=tensors["bias"])


def test_nan_in_what_is_added_stays_out_where_beta_is_0(handle: Handle) -> None:
    problem = layer(beta=0.0)
    tensors = random_operands(problem, 1)
    expected = right(problem, tensors)
    tensors["z"][...] = np.nan
    # The mock kernel reads z only where a factor says so, as recipes of real ones name no z.
    assert close(handle.run(handle.find(problem).best, **tensors), expected)


@pytest.mark.parametrize("last", [False, True])
def test_one_call_poses_the_problem_of_its_tensors(handle: Handle, last: bool) -> None:
    problem = layer()
    tensors = random_operands(problem, 1)
    expected = right(problem, tensors)
    given = dict(tensors)
    if last:
        for name in ("x", "z"):
            array = np.moveaxis(tensors[name], 1, -1)
            given[name] = np.moveaxis(np.ascontiguousarray(array), -1, 1)
    x, w, bias, z = (given[name] for name in problem.reads)
    result = handle.convolve(x, w, bias=bias, z=z, padding=1, activation=LEAKY)
    assert close(result, expected)
    assert close(
        handle.convolve(x, w, bias=bias, z=z, out=z, padding=1, activation=LEAKY), expected
    )
    tensors = random_operands(problem, 1)
    options: dict[str, Any] = {"padding": 1, "activation": LEAKY, "add_last": True}
    later = handle.convolve(x, w, bias=bias, z=tensors["z"], **options)
    assert close(later, right(layer(add_last=True), tensors))
    plain = layer(bias=False, add=False, activation="relu")
    tensors_of_plain = {"x": tensors["x"], "w": tensors["w"]}
    only = handle.convolve(x, w, padding=1, activation="relu")
    assert close(only, right(plain, tensors_of_plain))


def test_a_result_lies_as_what_is_added_does_on_the_device(handle: Handle) -> None:
    problem = layer()
    tensors = random_operands(problem, 1)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(tensors["z"], 1, -1)), -1, 1)
    x, w, bias = (handle.tensor(tensors[name]) for name in ("x", "w", "bias"))
    z = handle.tensor(last)
    result = handle.convolve(x, w, bias=bias, z=z, padding=1, activation=LEAKY)
    assert result.strides == z.strides
    assert close(handle.to_numpy(result), right(problem, tensors))


def test_an_empty_batch_has_an_empty_result(handle: Handle) -> None:
    problem = layer().with_batch(0)
    tensors = random_operands(problem, 1)
    result = handle.run(handle.find(problem).best, **tensors)
    assert result.shape == (0, 8, 6, 5)


def test_the_memory_of_a_result_counts_as_read_only_where_it_is(handle: Handle) -> None:
    problem = layer(add=False, beta=0.5)
    tensors = random_operands(problem, 1)
    best = handle.find(problem).best
    with pytest.raises(ProblemError, match="previous contents"):
        handle.run(best, **tensors)
    before = np.ones((2, 8, 6, 5), np.float32)
    expected = reference_convolution(problem, tensors["x"], tensors["w"], before, tensors["bias"])
    assert close(handle.run(best, **tensors, out=before), expected)


def test_a_wrong_activation_is_found_out_in_the_timed_run(tmp_path: Path) -> None:
    class Forgetful(MockFused):
        """Applies the activation of another number; bias and sum are right."""

        solver_id = "mock-forgetful"

        def solution(self, problem: ConvProblem, *others: Any, **more: Any) -> Any:
            """Use the number of another problem."""
            from dataclasses import replace

            other = replace(problem, activation=Activation("leaky", 0.26))
            return super().solution(other, *others, **more)

    class Plugin:
        @hookimpl
        def convfind_register_solvers(self, register: Any) -> None:
            register.extend([Forgetful(), MockFused()])

    registry = Registry.build([Plugin()], load_entry_points=False)
    with handle_for(MockBackend().open(), registry, Settings(user_db_path=tmp_path)) as opened:
        found = opened.find(layer(), mode="NORMAL")
        assert [one.solver for one in found.solutions] == ["mock-fused"]
        assert found.rejected["mock-forgetful"].reason == "wrong-result"
        assert isinstance(found.best.error, float)
        view = tensor_view(layer(), "bias", np.zeros(8, np.float32))
        assert view.shape == (8,)


def test_no_solver_that_knows_epilogues_is_needed_to_say_so(mock_handle: Handle) -> None:
    with pytest.raises(NoSolverError, match="bias"):
        _ = mock_handle.find(layer()).best
