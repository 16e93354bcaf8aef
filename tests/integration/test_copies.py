"""Solvers of packed tensors of one layout take gaps and mixed layouts with copies of core's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convfind.checking.random_data import random_operands
from convfind.checking.reference import reference_convolution
from convfind.find.result import FindOrigin
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.kit.copied import copied
from convfind.kit.copy_step import copy_step
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry, default_registry
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, InvokeArgs
from convfind.settings import Settings
from convfind.solver import Domain
from convfind.solver.applicability import Rejected
from convfind.solver.recipe import BufferArg
from convfind.testing import check_solver
from convfind.types import Direction
from convfind_solvers_direct.naive import NaiveSolver

PACKED = "packed-fwd"
COPIES = f"{PACKED}+copies"


class Packed(NaiveSolver):
    """A solver of packed tensors whose channels come last."""

    is_last_resort = False

    def __init__(self) -> None:
        super().__init__(Direction.FORWARD)
        self.solver_id = PACKED
        self.domain = Domain(directions=(Direction.FORWARD,), channels_last=True).with_epilogue()
        self.domain = self.domain.without("gaps", "mixed-layouts")


class PackedData(NaiveSolver):
    """One of gradients of the data, whose channels come first."""

    is_last_resort = False

    def __init__(self) -> None:
        super().__init__(Direction.BACKWARD_DATA)
        self.solver_id = "packed-bwd-data"
        self.domain = Domain(directions=(Direction.BACKWARD_DATA,), channels_last=False)
        self.domain = self.domain.without("gaps", "mixed-layouts")


class PackedWeights(NaiveSolver):
    """One of gradients of the weights, whose tensors have one layout, no matter which."""

    is_last_resort = False

    def __init__(self) -> None:
        super().__init__(Direction.BACKWARD_WEIGHTS)
        self.solver_id = "packed-bwd-weights"
        self.domain = Domain(directions=(Direction.BACKWARD_WEIGHTS,))
        self.domain = self.domain.without("gaps", "mixed-layouts")


class Plugin:
    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend([Packed(), PackedData(), PackedWeights(), NaiveSolver(Direction.FORWARD)])


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = default_registry().backends["opencl"].open("cpu")
    yield opened
    opened.close()


@pytest.fixture
def handle(tmp_path: Path, device: Device) -> Iterator[Handle]:
    registry = Registry.build([Plugin()], load_entry_points=False)
    opened = default_registry().backends["opencl"].open("cpu")
    with handle_for(opened, registry, Settings(user_db_path=tmp_path)) as handle:
        yield handle


#: How tensors lie: each has something that no packed solver takes.
LYING: dict[str, dict[str, Any]] = {
    "result last": {"y_layout": "NHWC"},
    "weights last": {"w_layout": "NHWC"},
    "data last": {"x_layout": "NHWC"},
    "only data first": {"layout": "NHWC", "x_layout": "NCHW"},
    "channels last as strides": {
        "x_strides": (540, 1, 60, 6),
        "w_strides": (54, 1, 18, 6),
        "y_strides": (1080, 1, 120, 12),
    },
    "gaps between rows": {"x_strides": (1000, 150, 16, 1), "y_strides": (1500, 120, 12, 1)},
    "gaps between all": {"x_strides": (2000, 300, 33, 3), "w_strides": (130, 20, 6, 2)},
    "gaps in channels last": {
        "layout": "NHWC",
        "x_strides": (800, 1, 80, 7),
        "y_strides": (1300, 1, 130, 13),
    },
    "axes in another order": {"x_strides": (1, 18 * 12, 2, 20)},
}


def layers(direction: Direction, **more: Any) -> list[ConvProblem]:
    return [
        ConvProblem.create(direction, (2, 6, 9, 10), (12, 6, 3, 3), padding=1, **lying, **more)
        for lying in LYING.values()
    ]


@pytest.mark.parametrize("solver", [Packed(), PackedData(), PackedWeights()])
def test_it_keeps_the_contract_of_solvers(device: Device, solver: Any) -> None:
    (direction,) = solver.domain.directions
    shapes = [
        *layers(direction),
        *layers(direction, alpha=0.5, beta=-1.5)[5:7],
        *layers(direction, dtype="float16")[:5:2],
        ConvProblem.create(
            *(direction, (2, 6, 70), (12, 6, 3)), layout="NWC", x_layout="NCW", y_layout="NCW"
        ),
        ConvProblem.create(
            *(direction, (1, 3, 4, 5, 6), (5, 3, 2, 2, 2)), x_strides=(999, 300, 60, 11, 2)
        ),
    ]
    if direction is Direction.FORWARD:
        shapes += layers(direction, bias=True, add=True, activation="silu")[::2]
        shapes += layers(direction, dtype="int8")[1::4]
    report = check_solver(copied(solver), device, shapes=shapes, every_variant=False)
    assert report.ok, str(report)
    assert not report.rejected


@pytest.mark.parametrize("lying", LYING)
def test_it_is_found_recorded_recalled_saved_and_run(
    handle: Handle, tmp_path: Path, lying: str
) -> None:
    problem = ConvProblem.forward(
        (2, 6, 9, 10), (12, 6, 3, 3), padding=1, bias=True, **LYING[lying]
    )
    found = handle.find(problem, mode="NORMAL", solvers=[PACKED])
    assert (found.best.solver, found.origin) == (COPIES, FindOrigin.MEASURED)
    again = handle.find(problem, solvers=[COPIES])
    assert (again.best.solver, again.origin) == (COPIES, FindOrigin.USER_DB)
    again.best.save(tmp_path / "saved.json")
    tensors = random_operands(problem, 1)
    expected = reference_convolution(problem, tensors["x"], tensors["w"], None, tensors["bias"])
    for solution in (found.best, type(again.best).load(tmp_path / "saved.json")):
        np.testing.assert_allclose(handle.run(solution, **tensors), expected, atol=1e-5)
        bound = handle.bind(solution, w=tensors["w"], bias=tensors["bias"])
        np.testing.assert_allclose(bound.run(x=tensors["x"]), expected, atol=1e-5)


def test_packed_problems_see_nothing_of_it(handle: Handle) -> None:
    for layout in ("NCHW", "NHWC"):
        problem = ConvProblem.forward((2, 6, 9, 10), (12, 6, 3, 3), layout=layout)
        assert COPIES not in {row.solver for row in handle.explain(problem).rows}


def test_who_needs_no_copies_is_offered_with_none(handle: Handle) -> None:
    problem = layers(Direction.FORWARD)[0]
    rows = {row.solver: row for row in handle.explain(problem).rows}
    assert isinstance(rows[PACKED].applicability, Rejected)
    assert rows[COPIES].applicability
    assert rows["direct-naive-fwd"].applicability
    assert "direct-naive-fwd+copies" not in rows


def test_what_lies_as_it_should_is_not_copied(device: Device) -> None:
    as_strides = layers(Direction.FORWARD)[list(LYING).index("channels last as strides")]
    recipe = copied(Packed()).solution(as_strides, device.target)
    assert (
        recipe.steps == Packed().solution(copied(Packed()).inside(as_strides), device.target).steps
    )
    assert (recipe.workspace, recipe.packed) == (0, 0)
    pointwise = ConvProblem.forward((2, 6, 9, 10), (12, 6, 1, 1), layout="NHWC", w_layout="NCHW")
    assert not copied(Packed()).solution(pointwise, device.target).prepare
    weights = ConvProblem.forward((2, 6, 9, 10), (12, 6, 3, 3), layout="NHWC", w_layout="NCHW")
    recipe = copied(Packed()).solution(weights, device.target)
    assert (len(recipe.prepare), len(recipe.steps)) == (1, 1)
    assert recipe.packed >= weights.nbytes("w")


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_copy_moves_every_element_and_nothing_else(device: Device, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 5))
    shape = tuple(data.draw(st.tuples(*[st.integers(1, 70 if rank < 3 else 20)] * rank)))
    dtype = np.dtype(data.draw(st.sampled_from(["int8", "uint16", "float32", "float64"])))

    def strides() -> tuple[int, ...]:
        drawn, step = [0] * rank, data.draw(st.integers(1, 2))
        for axis in data.draw(st.permutations(range(rank))):
            drawn[axis] = step
            step = step * shape[axis] + data.draw(st.integers(0, 2))
        return tuple(drawn)

    def view(memory: np.ndarray[Any, Any], steps: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return np.lib.stride_tricks.as_strided(
            memory, shape, [step * dtype.itemsize for step in steps]
        )

    ends = strides(), strides()
    spans = [1 + sum((n - 1) * step for n, step in zip(shape, end, strict=True)) for end in ends]
    source = np.arange(spans[0]).astype(dtype)
    result = np.full(spans[1], 77, dtype)
    expected = result.copy()
    view(expected, ends[1])[...] = view(source, ends[0])
    launch = copy_step(
        source=BufferArg("x"),
        result=BufferArg("y"),
        shape=shape,
        source_strides=ends[0],
        result_strides=ends[1],
        element_size=dtype.itemsize,
        images=data.draw(st.booleans()),
        target=device.target,
    )
    program = launch.kernel.program
    loaded = device.load(program, device.compile(program))
    buffers = device.upload(source), device.allocate(result.nbytes)
    device.write(buffers[1], result)
    device.invoker([launch], {program: loaded})(InvokeArgs(x=buffers[0], y=buffers[1]))
    device.read(buffers[1], result)
    np.testing.assert_array_equal(result, expected)
