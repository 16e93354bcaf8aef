"""Networks that are built in are the architectures of their names, and run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from convfind.cli import build_program
from convfind.handle import Handle
from convfind.plugins.registry import Registry
from convfind_networks import ModelFormatError, Network, evaluate
from convfind_networks.errors import BindingError


@pytest.mark.parametrize(
    ("name", "convolutions", "linears", "parameters"),
    [
        ("resnet50", 53, 1, 25_557_032),
        ("vgg16", 13, 3, 138_357_544),
        ("mobilenet_v2", 52, 1, 3_504_872),
    ],
)
def test_a_built_in_network_has_the_layers_of_its_name(
    name: str, convolutions: int, linears: int, parameters: int
) -> None:
    network = Network.built_in(name)
    graph = network.graph({"batch": 1})
    weights = {one for node in graph.nodes for one in node.inputs if graph.values[one].is_constant}
    statistics = sum(
        graph.values[one].type.elements
        for node in graph.nodes
        if node.op.kind == "BatchNorm"
        for one in node.inputs[3:]
    )
    found = sum(graph.values[one].type.elements for one in weights)
    assert found - statistics == parameters
    best = network.optimized({"batch": 1})
    assert (best.count("Convolution"), best.count("Linear")) == (convolutions, linears)
    assert not best.count("BatchNorm")


def test_a_built_in_network_on_a_device_computes_what_its_graph_says(handle: Handle) -> None:
    network = Network.built_in("mobilenet_v2")
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=np.float32)
    plan = network.compile(handle, {"batch": 1}, on_miss="estimate")
    wanted = evaluate(network.optimized({"batch": 1}), {"x": x})["y"]
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(plan.run({"x": x})["y"], wanted, rtol=0, atol=1e-4 * scale)


def test_a_name_that_is_not_built_in_is_refused_with_those_that_are() -> None:
    with pytest.raises(ModelFormatError, match="resnet50, vgg16, mobilenet_v2 are"):
        Network.built_in("resnet51")


@pytest.mark.parametrize("shapes", ["fast", 4, [("batch", 4)]])
def test_shapes_that_are_no_mapping_are_refused_with_what_one_is(shapes: Any) -> None:
    with pytest.raises(BindingError, match=r"shapes=.* is no mapping; give"):
        Network.built_in("mobilenet_v2").graph(shapes)


def test_the_command_takes_a_name_in_the_place_of_a_file() -> None:
    program = build_program(Registry.build())
    words = ["network", "problems", "resnet50", "--set", "batch=2", "--json"]
    found = json.loads(CliRunner().invoke(program, words).stdout)
    assert (found["model"], found["occurrences"]) == ("resnet50", 53)
