"""ONNX's own node tests: every one passes or is on a list, so that coverage only grows."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest

from convfind_networks import ModelFormatError, Network, UnsupportedError, evaluate

#: Operators that some node test has, and no one here implements.
UNSUPPORTED = re.compile(
    # Not of networks for images: sequences, texts, trees, training, signals, random numbers.
    r"Sequence|Optional|String|Regex|Tfidf|TfIdf|ImageDecoder|ai\.onnx\.ml|preview\.training"
    r"|Random|Bernoulli|DFT|STFT|MelWeight|Unique|Loop|Scan|SplitToSequence|ConcatFromSequence"
    # Not here yet.
    r"|GridSample|RoiAlign|NonMaxSuppression|Einsum|Col2Im|CumProd|Det|BitCast"
    r"|GRU|LSTM|RNN|ReverseSequence|TensorScatter"
)
#: Nodes of supported operators that are refused.
REFUSED = re.compile(
    r"training_mode|texts and sparse|no type of numbers|float8_e8m0|depends on data"
    r"|no tensor of numbers"
)
#: Halves in float64 that are none in float32.
ROUNDED_OTHERWISE = {"test_dynamicquantizelinear", "test_dynamicquantizelinear_expanded"}
_LOOSE = {"float16": 2e-3, "bfloat16": 2e-2}


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[Any] = collect_testcases(None)
    return found


def as_array(given: Any) -> np.ndarray[Any, Any]:
    if isinstance(given, onnx.TensorProto):
        return np.asarray(onnx.numpy_helper.to_array(given))
    return np.asarray(given)


def results(case: Any, inputs: list[Any]) -> dict[str, Any]:
    """Compute a case; what is refused while it is computed is given as a constant."""
    network = Network.from_onnx(case.model)
    given = {one.name: as_array(array) for one, array in zip(network.inputs, inputs, strict=True)}
    small = {name for name, array in given.items() if array.ndim < 2 and array.size < 16}
    for constant in (set(), small):
        shapes = {n: a if n in constant else a.shape for n, a in given.items()}
        try:
            graph = network.graph(shapes)
        except UnsupportedError:
            if constant == small:
                raise
            continue
        return evaluate(graph, {n: a for n, a in given.items() if n not in constant})
    raise AssertionError


def outcome(case: Any) -> str:
    """Return why a case is not supported, or nothing where its results are right."""
    for inputs, outputs in case.data_sets:
        if not all(isinstance(one, (np.ndarray, np.generic, onnx.TensorProto)) for one in inputs):
            return "input: it is no tensor of numbers"
        try:
            got = results(case, inputs)
        except UnsupportedError as error:
            return str(error.unsupported[0])
        for array, expected in zip(got.values(), map(as_array, outputs), strict=False):
            assert array.shape == expected.shape
            np.testing.assert_allclose(
                array.astype(np.float64),
                expected.astype(np.float64),
                rtol=max(case.rtol, _LOOSE.get(expected.dtype.name, 0)),
                atol=max(case.atol, 1e-6),
            )
    return ""


def test_every_node_test_passes_or_has_a_reason(cases: list[Any]) -> None:
    wrong, reasons, passed = {}, Counter[str](), set()
    for case in cases:
        if case.name in ROUNDED_OTHERWISE:
            continue
        try:
            reason = outcome(case)
        except (AssertionError, ModelFormatError) as error:
            wrong[case.name] = str(error)
            continue
        if reason:
            reasons[reason] += 1
        else:
            passed.add(case.name)
    assert not wrong
    unlisted = [
        reason
        for reason in reasons
        if not UNSUPPORTED.search(reason.split(" (")[0]) and not REFUSED.search(reason)
    ]
    assert not unlisted
    assert len(passed) >= 1627
    float32 = [c for c in cases if c.name in passed and touches_float32(c)]
    assert len(float32) >= 600


def touches_float32(case: Any) -> bool:
    kinds = [one.type.tensor_type.elem_type for one in case.model.graph.input]
    return onnx.TensorProto.FLOAT in kinds
