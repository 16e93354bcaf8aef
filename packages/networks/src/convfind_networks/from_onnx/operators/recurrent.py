"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import Activate, Activation, ActivationKind, Expand, Split
from convfind_networks.recurrence import (
    GRU,
    LSTM,
    RNN,
    Direction,
    Function,
    Kind,
    recurrent_layer,
    row_of,
)

_KINDS = {"RNN": RNN, "GRU": GRU, "LSTM": LSTM}


def recurrent(node: OnnxNode) -> tuple[Value, ...]:
    """RNN, GRU and LSTM, in one direction or both."""
    kind = _KINDS[node.proto.op_type]
    x, batch_first = node.input(0), bool(node.integer("layout", 0))
    if batch_first:
        x = node.transpose(x, 1, 0, 2)
    direction, count = node.word("direction", "forward"), node.input(1).shape[0]
    if count != (2 if direction == "bidirectional" else 1):
        raise NotSupported(f"weights of {count} directions for {direction}")
    directions = [
        _direction(node, kind, x, number, backwards=direction == "reverse" or number == 1)
        for number in range(count)
    ]
    y, states = recurrent_layer(node, kind, x, directions, _lengths(node, x.shape[0]))
    if batch_first:
        y = node.transpose(y, 2, 0, 1, 3)
        states = [node.transpose(one, 1, 0, 2) for one in states]
    return (y, *states)


def _lengths(node: OnnxNode, steps: int) -> Value | None:
    """Return how many steps each sequence has, (N, 1), or None where all have all."""
    lengths = node.optional(4)
    if lengths is None or (lengths.data is not None and (lengths.data == steps).all()):
        return None
    return node.reshape(lengths, lengths.type.elements, 1)


def _direction(node: OnnxNode, kind: Kind, x: Value, number: int, *, backwards: bool) -> Direction:
    """Return a direction, the first or the second one."""
    w, r = (row_of(node, node.input(index), number) for index in (1, 2))
    size, batch = r.shape[1], x.shape[1]
    bias_w = bias_r = None
    if (biases := node.optional(3)) is not None:
        bias_w, bias_r = node.add_all(Split(0, (w.shape[0],) * 2), row_of(node, biases, number))
    peepholes: Sequence[Value] = ()
    if kind is LSTM and (given := node.optional(7)) is not None:
        peepholes = node.add_all(Split(0, (size,) * 3), row_of(node, given, number))
    return Direction(
        *(w, r, bias_w, bias_r),
        first=[_first(node, index, number, batch, size) for index in (5, 6)[: kind.states]],
        functions=_functions(node, kind, number),
        backwards=backwards,
        peepholes=peepholes,
        coupled=bool(node.integer("input_forget", 0)),
        resets_late=bool(node.integer("linear_before_reset", 0)),
    )


def _first(node: OnnxNode, index: int, number: int, batch: int, size: int) -> Value:
    """Return a value of the state before the first step: zeros, or that of an input."""
    given = node.optional(index)
    if given is None:
        return node.const(np.zeros((batch, size)), like=node.input(0))
    if node.integer("layout", 0):
        given = node.transpose(given, 1, 0, 2)
    return node.add(Expand((batch, size)), row_of(node, given, number))


# -- functions ------------------------------------------------------------------------------------

#: Functions as activations, with what alpha and beta are where a model does not say.
_ACTIVATIONS: dict[str, tuple[ActivationKind, tuple[float, ...]]] = {
    "relu": (ActivationKind.RELU, ()),
    "tanh": (ActivationKind.TANH, ()),
    "sigmoid": (ActivationKind.SIGMOID, ()),
    "leakyrelu": (ActivationKind.LEAKY_RELU, (0.01,)),
    "thresholdedrelu": (ActivationKind.THRESHOLDED_RELU, (1.0,)),
    "hardsigmoid": (ActivationKind.HARD_SIGMOID, (0.2, 0.5)),
    "elu": (ActivationKind.ELU, (1.0,)),
    "softsign": (ActivationKind.SOFTSIGN, ()),
    "softplus": (ActivationKind.SOFTPLUS, ()),
}
#: Others, with the same.
_LINES = {"affine": (1.0, 0.0), "scaledtanh": (1.0, 1.0)}


def _functions(node: OnnxNode, kind: Kind, number: int) -> Sequence[Function]:
    """Return the functions of a direction; alphas and betas are used up in order."""
    names = [bytes(name).decode().lower() for name in node.attribute("activations") or ()]
    each = len(kind.functions)
    names = names or list(kind.functions) * (number + 1)
    alphas, betas = (iter(node.attribute(f"activation_{name}") or ()) for name in ("alpha", "beta"))
    made = [_function(node, name, alphas, betas) for name in names]
    if len(made) < each * (number + 1):
        raise NotSupported(f"{len(made)} activations")
    return made[each * number : each * (number + 1)]


def _function(
    node: OnnxNode, name: str, alphas: Iterator[float], betas: Iterator[float]
) -> Function:
    """Return a function, on what the node's ``clip`` leaves."""
    kind, usual = _ACTIVATIONS.get(name, (ActivationKind.TANH, _LINES.get(name)))
    if usual is None:
        raise NotSupported(f"activation {name}")
    numbers = [next(given, one) for given, one in zip((alphas, betas), usual, strict=False)]
    limit = node.real("clip", 0.0)
    bounds = Activation(ActivationKind.CLIP, (-limit, limit))
    activation = Activation(kind, tuple(numbers) if name in _ACTIVATIONS else ())

    def apply(x: Value) -> Value:
        x = node.add(Activate(bounds), x) if limit else x
        if name == "affine":
            return node.plus(node.times(x, numbers[0]), numbers[1])
        if name == "scaledtanh":
            return node.times(node.add(Activate(activation), node.times(x, numbers[1])), numbers[0])
        return node.add(Activate(activation), x)

    return apply


OPERATORS: OnnxOperators = dict.fromkeys(_KINDS, recurrent)
