"""The convolutions of common networks: what is known of them, and their forms."""

from __future__ import annotations

from collections import Counter

from convfind.problem import ConvProblem
from convfind.problem.common_networks import Use, common_networks, usual_uses
from convfind.types import DataType, Direction, Layout


def as_it_is(problem: ConvProblem) -> ConvProblem:
    return problem


def in_training(problem: ConvProblem) -> ConvProblem:
    return problem.with_direction(Direction.BACKWARD_WEIGHTS)


def test_networks_have_the_layers_weights_and_products_of_their_papers() -> None:
    resnet, vgg, mobilenet, efficientnet = common_networks([Use([as_it_is], [1])])
    assert [len(one) for one in (resnet, vgg, mobilenet, efficientnet)] == [53, 13, 52, 49]
    assert sum(layer.macs for layer in resnet) == 4_087_136_256
    assert sum(layer.macs for layer in vgg) == 15_346_630_656
    assert sum(layer.macs for layer in mobilenet) == 299_494_272

    def weights(network: tuple[ConvProblem, ...]) -> int:
        total = 0
        for layer in network:
            filters, channels, *window = layer.w_shape
            total += filters * channels * window[0] * window[1]
        return total

    assert weights(resnet) == 23_454_912
    assert weights(vgg) == 14_710_464
    assert weights(mobilenet) == 2_189_760


def test_a_layer_takes_what_one_before_it_has_made_perhaps_through_a_pooling() -> None:
    for network in common_networks([Use([as_it_is], [1])]):
        made = {(3, 224)}
        for layer in network:
            _, channels, size, _ = layer.x_shape
            assert (channels, size) in made, layer.key
            _, filters, results, _ = layer.y_shape
            made |= {(filters, results), (filters, results // 2)}


def test_each_use_has_its_forms_at_its_batch_sizes() -> None:
    networks = list(common_networks([Use([as_it_is, in_training], [2, 8])]))
    assert len(networks) == 8
    assert {layer.x_shape[0] for layer in networks[0]} == {2}
    assert {layer.x_shape[0] for layer in networks[1]} == {8}
    directions = Counter(layer.direction for layer in networks[1])
    assert directions == {Direction.FORWARD: 53, Direction.BACKWARD_WEIGHTS: 53}


def test_usual_uses_are_layers_training_and_fused_inference() -> None:
    plain, training, fused = (next(common_networks([use])) for use in usual_uses())
    assert {layer.direction for layer in plain} == {Direction.FORWARD}
    assert {layer.direction for layer in training} == set(Direction)
    assert {(layer.bias, layer.add, str(layer.activation)) for layer in fused} == {
        (True, False, "relu"),
        (True, True, "relu"),
    }


def test_options_reach_every_layer_and_impossible_forms_are_left_out() -> None:
    use = Use([as_it_is, in_training], [1])
    (network, *_) = common_networks([use], dtype=DataType.INT8, layout="NHWC")
    assert {layer.dtype for layer in network} == {DataType.INT8}
    assert {layer.y_layout for layer in network} == {Layout.NHWC}
    assert len(network) == 53, "int8 has no gradients"
