"""aten.lstm, gru, rnn_tanh and rnn_relu: layers on layers, in one direction or both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from convfind_networks.from_torch.node import AtenNode, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import Activate, Activation, ActivationKind, Concat, Split
from convfind_networks.recurrence import (
    GRU,
    LSTM,
    RNN,
    Direction,
    Kind,
    recurrent_layer,
    row_of,
)

_SIGMOID, _TANH, _RELU = ActivationKind.SIGMOID, ActivationKind.TANH, ActivationKind.RELU


@dataclass(frozen=True)
class _Operator:
    """An operator: the kind of its layers, its gates in our order, and its functions."""

    kind: Kind
    order: tuple[int, ...]
    functions: tuple[ActivationKind, ...]

    def __call__(self, node: AtenNode) -> tuple[Value, ...]:
        """Add the layers."""
        return _recurrent(node, self)

    def weights(self, node: AtenNode, given: Value) -> Value:
        """Return weights or a bias with the gates in our order."""
        gates = len(self.order)
        parts = node.add_all(Split(0, (given.shape[0] // gates,) * gates), given)
        return node.add(Concat(0), *(parts[at] for at in self.order))


def _recurrent(node: AtenNode, operator: _Operator) -> tuple[Value, ...]:
    functions = [partial(node.add, Activate(Activation(one))) for one in operator.functions]
    x, params = node.value("input"), node.get("params")
    if x.type.rank != 3 or node.get("train"):
        raise NotSupported("a sequence without a batch, or training")
    given = node.get("hx")
    first = given if isinstance(given, (list, tuple)) else [given]
    count = 2 if node.get("bidirectional") else 1
    each = 4 if node.get("has_biases") else 2
    if len(params) != each * count * int(node.get("num_layers")):
        raise NotSupported("projections")
    if node.get("batch_first"):
        x = node.transpose(x, 1, 0, 2)
    steps, batch, _ = x.shape
    lasts: list[list[Value]] = [[] for _ in first]
    for layer in range(int(node.get("num_layers"))):
        directions = []
        for number in range(count):
            at = layer * count + number
            mine = params[at * each : (at + 1) * each]
            weights = [operator.weights(node, one) for one in mine]
            w, r, *biases = weights
            bias_w, bias_r = biases or (None, None)
            states = [row_of(node, one, at) for one in first]
            directions.append(
                Direction(
                    w=w,
                    r=r,
                    bias_w=bias_w,
                    bias_r=bias_r,
                    first=states,
                    functions=functions,
                    backwards=number == 1,
                    resets_late=operator.kind is GRU,
                )
            )
        y, states = recurrent_layer(node, operator.kind, x, directions, None)
        for all_, one in zip(lasts, states, strict=True):
            all_.append(one)
        x = node.reshape(node.transpose(y, 0, 2, 1, 3), steps, batch, count * y.shape[3])
    result = node.transpose(x, 1, 0, 2) if node.get("batch_first") else x
    return (result, *(node.add(Concat(0), *ones) for ones in lasts))


OPERATORS: AtenOperators = {
    "lstm": _Operator(LSTM, (0, 3, 1, 2), (_SIGMOID, _TANH, _TANH)),
    "gru": _Operator(GRU, (1, 0, 2), (_SIGMOID, _TANH)),
    "rnn_tanh": _Operator(RNN, (0,), (_TANH,)),
    "rnn_relu": _Operator(RNN, (0,), (_RELU,)),
}
