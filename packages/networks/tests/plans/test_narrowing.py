"""Products in a 16-bit type, as autocast has them: which values are narrow, and right results."""

from __future__ import annotations

import numpy as np
import pytest
from networks_for_tests import graph_of
from plans_for_tests import Layers, compiled, inputs_of

from convfind.handle import Handle
from convfind_networks import GraphBuilder, Value
from convfind_networks.errors import PlanError
from convfind_networks.ops import Binary, BinaryFunction, Softmax
from convfind_networks.plan.narrowing import narrowed


def network(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    a = make.relu(make.convolution(x, 8))
    b = builder.add(Binary(BinaryFunction.MUL), a, builder.constant(np.float32(0.5)))
    c = make.convolution(b, 4, size=1)
    soft = builder.add(Softmax(axis=1), c)
    both = builder.add(Binary(BinaryFunction.ADD), soft, c)
    return {"narrow": c, "soft": soft, "both": both}


@pytest.mark.parametrize("word", ["float16", "bfloat16"])
def test_products_are_narrow_and_what_needs_exactness_is_wide(word: str) -> None:
    graph = narrowed(graph_of(network, (2, 3, 6, 6)), word)
    kinds = {public: graph.values[name].type.dtype.name for public, name in graph.outputs.items()}
    assert kinds == {"narrow": word, "soft": "float32", "both": "float32"}
    assert [graph.values[name].type.dtype.name for name in graph.inputs] == ["float32"]
    for node in graph.nodes:
        if node.op.kind == "Convolution":
            assert {graph.values[name].type.dtype.name for name in node.inputs} == {word}


def test_a_value_is_cast_once_for_all_that_read_it() -> None:
    def twice(builder: GraphBuilder, x: Value) -> dict[str, Value]:
        make = Layers(builder)
        return {"a": make.convolution(x, 4), "b": make.convolution(x, 5)}

    graph = narrowed(graph_of(twice, (1, 3, 6, 6)), "float16")
    assert [node.op.kind for node in graph.nodes].count("Cast") == 1


def test_another_type_is_refused() -> None:
    with pytest.raises(PlanError, match="allowed: float16, bfloat16"):
        narrowed(graph_of(network, (2, 3, 6, 6)), "int8")


def test_a_narrowed_plan_is_as_right_as_its_type(handle: Handle) -> None:
    graph = graph_of(network, (2, 3, 6, 6))
    inputs = inputs_of(graph)
    exact = compiled(handle, graph, channels_last=False).run(inputs)
    plan = compiled(handle, graph, channels_last=False, autocast="float16")
    for name, got in plan.run(inputs).items():
        np.testing.assert_allclose(got.astype(np.float32), exact[name], atol=0.02, rtol=0.02)
