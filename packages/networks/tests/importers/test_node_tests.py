"""ONNX's own node tests in the reference: each passes or is on a list, so that coverage grows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from node_cases_for_tests import cases, outcome, touches_float32

from convfind_networks import Network, UnsupportedError, evaluate

Array = np.ndarray[Any, Any]

#: Operators that some node test has, and no one here implements.
UNSUPPORTED = re.compile(
    # Not of networks for images: trees, training, files, and what is seldom seen.
    r"ai\.onnx\.ml|preview\.training|ImageDecoder|BitCast|Det"
)
#: Nodes of supported operators that are refused.
REFUSED = re.compile(
    r"training_mode|texts|no type of numbers|float8_e8m0|depends on data|it is random"
    r"|no tensor of numbers|is a sequence|opset 8"
)
#: Halves in float64 that are none in float32.
ROUNDED_OTHERWISE = {"test_dynamicquantizelinear", "test_dynamicquantizelinear_expanded"}


def evaluated(model: Any, inputs: Sequence[Array]) -> Sequence[Array]:
    """Compute a model; what is refused while it is computed is given as a constant."""
    network = Network.from_onnx(model)
    given = {one.name: array for one, array in zip(network.inputs, inputs, strict=True)}
    small = {name for name, array in given.items() if array.ndim < 2 and array.size < 16}
    for constant in (set(), small):
        shapes = {n: a if n in constant else a.shape for n, a in given.items()}
        try:
            graph = network.graph(shapes)
        except UnsupportedError:
            if constant == small:
                raise
            continue
        computed = evaluate(graph, {n: a for n, a in given.items() if n not in constant})
        return tuple(computed.values())
    raise AssertionError


def test_every_node_test_passes_or_has_a_reason() -> None:
    wrong, reasons, passed = {}, Counter[str](), []
    for case in cases():
        if case.name in ROUNDED_OTHERWISE:
            continue
        found = outcome(case, evaluated)
        if found.wrong:
            wrong[case.name] = found.wrong
        elif found.unsupported:
            reasons[found.unsupported] += 1
        else:
            passed.append(case)
    assert not wrong
    unlisted = [
        reason
        for reason in reasons
        if not UNSUPPORTED.search(reason.split(" (")[0]) and not REFUSED.search(reason)
    ]
    assert not unlisted
    assert len(passed) >= 1755
    assert sum(map(touches_float32, passed)) >= 600
