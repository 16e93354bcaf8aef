"""Recurrent layers, step by step: the products with the inputs of all steps are one product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from convfind_networks.graph import Value
from convfind_networks.importing import Composer, NotSupported
from convfind_networks.ops import BinaryFunction, Concat, Linear, Slice, Split, Where

#: The longest sequence: each step of it becomes nodes of its own.
MOST_STEPS = 4096

Function = Callable[[Value], Value]
#: The state that a step hands to the next one: the result, and the cell of an LSTM.
State = Sequence[Value]


@dataclass(frozen=True)
class Direction:
    """One direction of a layer: its weights, its functions, and the state before its first step.

    The gates of a GRU are z, r, h, those of an LSTM i, o, f, c, as in ONNX. H is the number of
    elements of a state.

    Attributes:
        w: weights of the inputs: (gates * H, I).
        r: weights of the state before: (gates * H, H).
        bias_w, bias_r: what is added to each of those products: (gates * H).
        first: the state before the first step, (N, H) each.
        functions: of the gates and of the state, as many as the kind has.
        peepholes: weights of the cell in the gates i, o and f of an LSTM: (H) each.
        coupled: whether an LSTM forgets as much as it takes in.
        resets_late: whether a GRU resets products with the state, not the state itself.
    """

    w: Value
    r: Value
    bias_w: Value | None
    bias_r: Value | None
    first: State
    functions: Sequence[Function]
    backwards: bool = False
    peepholes: Sequence[Value] = ()
    coupled: bool = False
    resets_late: bool = False


@dataclass(frozen=True)
class _Ready:
    """A direction at work: products of the inputs of each step, and weights in parts."""

    add: Composer
    of: Direction
    inputs: Sequence[Value]  # (N, gates * H) each, biases added
    weights: Sequence[Value]
    bias: Value | None  # of a GRU's last product with the state, where it is reset late

    def recurrent(self, h: Value, at: int = 0) -> Value:
        """Return the products of a state with weights."""
        return self.add.add(Linear(), h, self.weights[at])


def _rnn(to: _Ready, x: Value, state: State) -> State:
    (f,) = to.of.functions
    return (f(to.add.plus(to.recurrent(state[0]), x)),)


def _gru(to: _Ready, x: Value, state: State) -> State:
    add, (h,) = to.add, state
    f, g = to.of.functions
    size = h.shape[1]
    x_gates, x_new = add.add_all(Split(1, (2 * size, size)), x)
    z, r = add.add_all(Split(1, (size, size)), f(add.plus(to.recurrent(h), x_gates)))
    if to.of.resets_late:
        product = to.recurrent(h, 1)
        moved = add.times(r, product if to.bias is None else add.plus(product, to.bias))
    else:
        moved = to.recurrent(add.times(r, h), 1)
    new = g(add.plus(moved, x_new))
    return (add.plus(new, add.times(z, add.minus(h, new))),)


def _lstm(to: _Ready, x: Value, state: State) -> State:
    add, (h, c) = to.add, state
    f, g, last = to.of.functions
    size = h.shape[1]
    gates = add.plus(to.recurrent(h), x)
    if to.of.peepholes:
        p_i, p_o, p_f = to.of.peepholes
        i, o, forget, new = add.add_all(Split(1, (size,) * 4), gates)
        i = f(add.plus(i, add.times(c, p_i)))
        forget = f(add.plus(forget, add.times(c, p_f)))
    else:
        before, new = add.add_all(Split(1, (3 * size, size)), gates)
        i, o, forget = add.add_all(Split(1, (size,) * 3), f(before))
    if to.of.coupled:
        forget = add.minus(add.const(1, like=i), i)
    c = add.plus(add.times(forget, c), add.times(i, g(new)))
    if to.of.peepholes:
        o = f(add.plus(o, add.times(c, p_o)))
    return add.times(o, last(c)), c


@dataclass(frozen=True)
class Kind:
    """A kind of recurrent layer.

    Attributes:
        step: makes the state after a step of that before.
        gates: how many gates each of the weights of the state makes.
        states: values of a state.
        functions: the usual ones.
    """

    step: Callable[[_Ready, Value, State], State]
    gates: tuple[int, ...]
    states: int
    functions: tuple[str, ...]


RNN = Kind(_rnn, (1,), 1, ("tanh",))
GRU = Kind(_gru, (2, 1), 1, ("sigmoid", "tanh"))
LSTM = Kind(_lstm, (4,), 2, ("sigmoid", "tanh", "tanh"))


def recurrent_layer(
    add: Composer, kind: Kind, x: Value, directions: Sequence[Direction], lengths: Value | None
) -> tuple[Value, list[Value]]:
    """Return what a layer computes.

    Args:
        add: adds the operations.
        kind: the kind of layer.
        x: (T, N, I).
        directions: one or two.
        lengths: how many steps each sequence has, (N, 1); None: all of them.

    Returns:
        The results of all steps, (T, directions, N, H), and the values of the last state,
        (directions, N, H) each.

    Raises:
        NotSupported: there is no step, or there are too many.
    """
    steps, batch, _ = x.shape
    if not 0 < steps <= MOST_STEPS:
        raise NotSupported(f"{steps:,} steps; 1 to {MOST_STEPS:,} are possible")
    ys, lasts = [], []
    for one in directions:
        y, last = _run(_ready(add, kind, x, one), kind, lengths)
        ys.append(add.reshape(y, steps, 1, batch, y.shape[2]))
        lasts.append([add.reshape(value, 1, *value.shape) for value in last])
    states = [add.add(Concat(0), *values) for values in zip(*lasts, strict=True)]
    return add.add(Concat(1), *ys), states


def row_of(add: Composer, x: Value, at: int) -> Value:
    """Return one of the first axis, without it."""
    return add.reshape(add.add(Slice.of(x.shape, {0: slice(at, at + 1)}), x), *x.shape[1:])


def _ready(add: Composer, kind: Kind, x: Value, one: Direction) -> _Ready:
    size, (steps, batch, _) = one.r.shape[1], x.shape
    rows = tuple(count * size for count in kind.gates)
    products, late, bias_r = add.add(Linear(), x, one.w), None, one.bias_r
    if bias_r is not None and one.resets_late:
        of_gates, late = add.add_all(Split(0, rows), bias_r)
        bias_r = add.add(Concat(0), of_gates, add.const(np.zeros(size), like=x))
        late = add.reshape(late, 1, size)
    if one.bias_w is not None and bias_r is not None:
        products = add.plus(products, add.plus(one.bias_w, bias_r))
    each = add.add_all(Split(0, (1,) * steps), products)
    inputs = [add.reshape(row, batch, sum(rows)) for row in each]
    return _Ready(add, one, inputs, add.add_all(Split(0, rows), one.r), late)


def _run(to: _Ready, kind: Kind, lengths: Value | None) -> tuple[Value, State]:
    """Return the results of all steps, (T, N, H), and the last state."""
    add, state, rows = to.add, to.of.first, {}
    order = range(len(to.inputs))
    for at in reversed(order) if to.of.backwards else order:
        after = kind.step(to, to.inputs[at], state)
        h = after[0]
        if lengths is not None:  # behind its end a sequence keeps its state, and has no results
            is_in = add.binary(BinaryFunction.GREATER, lengths, float(at))
            h = add.add(Where(), is_in, h, add.const(0, like=h))
            after = [
                add.add(Where(), is_in, new, old) for new, old in zip(after, state, strict=True)
            ]
        state, rows[at] = after, add.reshape(h, 1, *h.shape)
    return add.add(Concat(0), *(rows[at] for at in order)), state
