"""RNN, GRU and LSTM in every form: the results of ONNX Runtime's kind, by the formulas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from networks_for_tests import onnx_model
from onnx import helper

from convfind_networks import Network, UnsupportedError, evaluate

Array = np.ndarray[Any, Any]

T, N, WIDTH, H = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
#: Gates of PyTorch in the order of ONNX.
ORDER = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2]}


def drawn(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return rng.uniform(-1, 1, shape).astype(np.float32)


def model(kind: str, count: int = 1, *, inputs: tuple[str, ...] = (), **attributes: Any) -> Any:
    rows = GATES[kind] * H
    weights = {
        "w": drawn(count, rows, WIDTH),
        "r": drawn(count, rows, H),
        "b": drawn(count, 2 * rows),
        "lengths": np.asarray([5, 2, 3], np.int32),
        "h": drawn(count, N, H),
        "c": drawn(count, N, H) / 2,
        "p": drawn(count, 3 * H),
    }
    given = [name if name in ("w", "r", *inputs) else "" for name in weights]
    while not given[-1]:
        given.pop()
    outputs = ("y", "y_h", "y_c")[: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, ["x", *given], outputs, hidden_size=H, **attributes)
    kept = {name: weights[name] for name in given if name}
    return onnx_model([node], {"x": (T, N, WIDTH)}, outputs, kept)


def results(made: Any, x: Array) -> list[Array]:
    return list(evaluate(Network.from_onnx(made).graph(), {"x": x}).values())


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_layer_computes_what_pytorchs_does(kind: str, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    made = model(kind, count, inputs=("b",), direction=direction, **more)
    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in made.graph.initializer}
    layer = getattr(torch.nn, kind)(WIDTH, H, bidirectional=count == 2)
    back = np.argsort(ORDER[kind])
    for at, suffix in enumerate(("_l0", "_l0_reverse")[:count]):
        halves = np.split(arrays["b"][at], 2)
        for name, array in (
            *(("weight_ih", arrays["w"][at]), ("weight_hh", arrays["r"][at])),
            *(("bias_ih", halves[0]), ("bias_hh", halves[1])),
        ):
            ours = array.reshape(GATES[kind], H, -1)[back]
            theirs = getattr(layer, f"{name}{suffix}")
            theirs.data = torch.from_numpy(ours.reshape(theirs.shape).copy())
    x = drawn(T, N, WIDTH)
    with torch.no_grad():
        y, last = layer(torch.from_numpy(x))
    got = results(made, x)
    wanted = y.numpy().reshape(T, N, count, H).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(got[0], wanted, atol=1e-5)
    for ours, theirs in zip(got[1:], last if kind == "LSTM" else (last,), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


FORMS = [
    ("RNN", {"direction": "reverse"}, ("b", "h")),
    ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}, ()),
    ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.2], "clip": 0.3}, ("b",)),
    ("GRU", {}, ("b", "h")),
    ("GRU", {"direction": "reverse", "linear_before_reset": 1}, ("h",)),
    ("GRU", {"direction": "bidirectional"}, ("b", "lengths", "h")),
    ("LSTM", {"clip": 0.5}, ("b", "h", "c", "p")),
    ("LSTM", {"direction": "reverse"}, ("b", "lengths", "h", "c")),
    ("LSTM", {"direction": "bidirectional", "input_forget": 1}, ("b", "lengths", "p")),
    ("LSTM", {"activations": ["HardSigmoid", "Softsign", "Tanh"]}, ("b", "c")),
]


@pytest.mark.parametrize(("kind", "attributes", "inputs"), FORMS)
def test_a_layer_of_any_form_follows_the_formulas(
    kind: str, attributes: dict[str, Any], inputs: tuple[str, ...]
) -> None:
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    made = model(kind, count, inputs=inputs, **attributes)
    x = drawn(T, N, WIDTH)
    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in made.graph.initializer}
    got = results(made, x)
    wanted = by_formulas(kind, x.astype(np.float64), arrays, attributes)
    for ours, right in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours, right, atol=1e-5)


def by_formulas(kind: str, x: Array, a: dict[str, Array], how: dict[str, Any]) -> list[Array]:
    """Walk over every step of every sequence by itself."""
    count, limit = a["w"].shape[0], how.get("clip", np.inf)
    lengths = a.get("lengths", np.full(N, T))
    y, h_last, c_last = np.zeros((T, count, N, H)), np.zeros((count, N, H)), np.zeros((count, N, H))

    def bounded(function: Any) -> Any:
        return lambda z: function(np.clip(z, -limit, limit))

    sigmoid, tanh = bounded(lambda z: 1 / (1 + np.exp(-z))), bounded(np.tanh)
    named = {
        "Affine": lambda z: 0.5 * z + 0.1,
        "LeakyRelu": lambda z: np.where(z < 0, 0.2 * z, z),
        "HardSigmoid": lambda z: np.clip(0.2 * z + 0.5, 0, 1),
        "Softsign": lambda z: z / (1 + np.abs(z)),
        "Tanh": np.tanh,
    }
    usual = {"RNN": [tanh], "GRU": [sigmoid, tanh], "LSTM": [sigmoid, tanh, tanh]}[kind]
    given = [bounded(named[name]) for name in how.get("activations", ())]
    f, g, last = (given or usual) + [tanh] * (3 - len(given or usual))
    for d, n in itertools.product(range(count), range(N)):
        w, r = a["w"][d], a["r"][d]
        b_w, b_r = np.split(a["b"][d] if "b" in a else np.zeros(2 * len(w)), 2)
        h = a["h"][d, n] if "h" in a else np.zeros(H)
        c = a["c"][d, n] if "c" in a else np.zeros(H)
        p_i, p_o, p_f = np.split(a["p"][d] if "p" in a else np.zeros(3 * H), 3)
        order = range(lengths[n])
        backwards = how.get("direction") == "reverse" or d == 1
        for t in reversed(order) if backwards else order:
            wx = np.split(w @ x[t, n] + b_w, GATES[kind])
            rh = np.split(r @ h + b_r, GATES[kind])
            if kind == "RNN":
                h = f(wx[0] + rh[0])
            elif kind == "GRU":
                z, reset = f(wx[0] + rh[0]), f(wx[1] + rh[1])
                inner = (
                    reset * rh[2]
                    if how.get("linear_before_reset")
                    else r[2 * H :] @ (reset * h) + b_r[2 * H :]
                )
                h = (1 - z) * g(wx[2] + inner) + z * h
            else:
                i = f(wx[0] + rh[0] + p_i * c)
                forget = 1 - i if how.get("input_forget") else f(wx[2] + rh[2] + p_f * c)
                c = forget * c + i * g(wx[3] + rh[3])
                h = f(wx[1] + rh[1] + p_o * c) * last(c)
            y[t, d, n] = h
        h_last[d, n], c_last[d, n] = h, c
    return [y, h_last, c_last][: 3 if kind == "LSTM" else 2]


def test_batches_may_come_first() -> None:
    x = drawn(T, N, WIDTH)
    plain = model("LSTM", inputs=("b", "h", "c"))
    swapped = model("LSTM", inputs=("b", "h", "c"), layout=1)
    for one in swapped.graph.initializer:
        if one.name in ("h", "c"):
            turned = onnx.numpy_helper.to_array(one).transpose(1, 0, 2).copy()
            one.CopyFrom(onnx.numpy_helper.from_array(turned, one.name))
    for at, size in enumerate((N, T, WIDTH)):
        swapped.graph.input[0].type.tensor_type.shape.dim[at].dim_value = size
    y, h, c = results(plain, x)
    got = results(swapped, x.transpose(1, 0, 2).copy())
    np.testing.assert_allclose(got[0], y.transpose(2, 0, 1, 3), atol=1e-6)
    for ours, right in zip(got[1:], (h, c), strict=True):
        np.testing.assert_allclose(ours, right.transpose(1, 0, 2), atol=1e-6)


def test_a_function_that_does_not_exist_is_refused() -> None:
    made = model("RNN", activations=["Cosine"])
    with pytest.raises(UnsupportedError, match="cosine"):
        Network.from_onnx(made).graph()
