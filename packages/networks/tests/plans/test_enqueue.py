"""Runs on tensors of the device: nothing is copied, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from networks_for_tests import graph_of
from plans_for_tests import Layers, compiled, inputs_of

from convfind.errors import ProblemError
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.types import AccuracyClass
from convfind_networks import Graph, GraphBuilder, Value
from convfind_networks.errors import BindingError
from convfind_networks.ops import Identity, MatMul, Transpose
from convfind_networks.plan import Plan


def small(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    return {"y": make.convolution(make.convolution(x, 8), 5, size=1)}


def passed_on(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    return {"y": Layers(builder).convolution(x, 4), "x": builder.add(Identity(), x)}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(small, (2, 3, 9, 7))


@pytest.fixture(scope="module")
def plan(handle: Handle, graph: Graph) -> Plan:
    return compiled(handle, graph, channels_last=False)


def empty(handle: Handle, *shape: int, dtype: Any = np.float32) -> Any:
    return handle.tensor(np.full(shape, -1, dtype))


def test_outputs_are_written_where_the_caller_says(
    plan: Plan, graph: Graph, handle: Handle
) -> None:
    for seed in range(3):
        inputs = inputs_of(graph, seed)
        y = empty(handle, 2, 5, 9, 7)
        plan.enqueue({"x0": handle.tensor(inputs["x0"])}, {"y": y})
        np.testing.assert_array_equal(handle.to_numpy(y), plan.run(inputs)["y"])


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        (None, (2, 5, 9, 7), "input x0 is missing"),
        ((2, 3, 9, 7), None, "output y is missing"),
        ((2, 3, 7, 9), (2, 5, 9, 7), r"input x0 is .* not float32\[2, 3, 7, 9\]"),
        ((2, 3, 9, 7), (2, 5, 63), r"output y is .* not float32\[2, 5, 63\]"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    plan: Plan,
    handle: Handle,
    x: tuple[int, ...] | None,
    y: tuple[int, ...] | None,
    told: str,
) -> None:
    inputs = {} if x is None else {"x0": empty(handle, *x)}
    outputs = {} if y is None else {"y": empty(handle, *y)}
    with pytest.raises(BindingError, match=told):
        plan.enqueue(inputs, outputs)


def test_other_types_other_names_and_arrays_are_refused(plan: Plan, handle: Handle) -> None:
    x, y = empty(handle, 2, 3, 9, 7), empty(handle, 2, 5, 9, 7)
    with pytest.raises(BindingError, match=r"output y is .* not float16"):
        plan.enqueue({"x0": x}, {"y": empty(handle, 2, 5, 9, 7, dtype=np.float16)})
    with pytest.raises(BindingError, match="no such output: z"):
        plan.enqueue({"x0": x}, {"y": y, "z": y})
    with pytest.raises(BindingError, match="y is a ndarray, no tensor of the device"):
        plan.enqueue({"x0": x}, {"y": np.zeros((2, 5, 9, 7), np.float32)})


def test_an_output_in_an_inputs_memory_is_refused(handle: Handle) -> None:
    def same(builder: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"y": Layers(builder).convolution(x, 3)}

    plan = compiled(handle, graph_of(same, (1, 3, 8, 8)), channels_last=False)
    x = empty(handle, 1, 3, 8, 8)
    with pytest.raises(BindingError, match="an output shares memory with an input"):
        plan.enqueue({"x0": x}, {"y": x})


def test_outputs_in_one_memory_are_refused(handle: Handle) -> None:
    def two(builder: GraphBuilder, x: Value) -> dict[str, Value]:
        make = Layers(builder)
        return {"y": make.convolution(x, 3), "z": make.convolution(x, 3)}

    plan = compiled(handle, graph_of(two, (1, 3, 8, 8)), channels_last=False)
    x, y = empty(handle, 1, 3, 8, 8), empty(handle, 1, 3, 8, 8)
    with pytest.raises(BindingError, match="two outputs share memory"):
        plan.enqueue({"x0": x}, {"y": y, "z": y})


def test_an_output_that_is_an_input_has_no_memory_of_its_own(handle: Handle, plan: Plan) -> None:
    other = compiled(handle, graph_of(passed_on, (1, 3, 8, 8)), channels_last=False)
    assert plan.writes_outputs
    assert not other.writes_outputs
    x = empty(handle, 1, 3, 8, 8)
    outputs = {"y": empty(handle, 1, 4, 8, 8), "x": empty(handle, 1, 3, 8, 8)}
    with pytest.raises(BindingError, match="use run"):
        other.enqueue({"x0": x}, outputs)


def test_an_empty_batch_has_an_empty_output(handle: Handle) -> None:
    plan = compiled(handle, graph_of(small, (0, 3, 9, 7)), channels_last=False)
    plan.enqueue({"x0": empty(handle, 0, 3, 9, 7)}, {"y": empty(handle, 0, 5, 9, 7)})
    assert plan.run({"x0": np.zeros((0, 3, 9, 7), np.float32)})["y"].shape == (0, 5, 9, 7)


def problems(plan: Plan) -> list[ConvProblem]:
    found = [task.problem for task in plan.schedule.tasks]
    return [one for one in found if isinstance(one, ConvProblem)]


def test_promises_are_those_of_every_convolution(handle: Handle, graph: Graph, plan: Plan) -> None:
    assert not any(one.allow_tf32 or one.deterministic for one in problems(plan))
    assert {one.accuracy for one in problems(plan)} == {AccuracyClass.NORMAL}
    given: dict[str, Any] = {"channels_last": False, "deterministic": True}
    other = compiled(handle, graph, allow_tf32=["Convolution"], accuracy="strict", **given)
    assert problems(other)
    assert all(one.allow_tf32 and one.deterministic for one in problems(other))
    assert {one.accuracy for one in problems(other)} == {AccuracyClass.STRICT}
    products = compiled(handle, graph, allow_tf32=["Linear"], **given)
    assert not any(one.allow_tf32 for one in problems(products))


def test_an_accuracy_that_there_is_not_is_refused_even_without_convolutions(
    handle: Handle,
) -> None:
    graph = graph_of(lambda builder, x: {"y": builder.add(Transpose((1, 0)), x)}, (2, 3))
    with pytest.raises(ProblemError, match=r"accuracy: 'exact'.*strict, normal, relaxed"):
        compiled(handle, graph, accuracy="exact")


def test_products_of_computed_matrices_have_a_permission_of_their_own(handle: Handle) -> None:
    def product(builder: GraphBuilder, x: Value) -> Value:
        return builder.add(MatMul(), x, builder.add(Transpose((1, 0)), x))

    for kinds, allows in (("Convolution", "Linear"), False), (("MatMul",), True):
        plan = compiled(handle, graph_of(product, (5, 7)), allow_tf32=kinds, channels_last=False)
        (task,) = plan.schedule.tasks
        problem: Any = task.problem
        assert problem.kind == "matmul"
        assert problem.allow_tf32 is allows
        assert dict(problem.strides) == {"b": (1, 7)}
