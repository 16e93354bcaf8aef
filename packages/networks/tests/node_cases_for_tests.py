"""ONNX's own node tests: which there are, and what becomes of each."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from convfind_networks import ModelFormatError, UnsupportedError

Array = np.ndarray[Any, Any]

#: Computes the outputs of a model from its inputs, in order.
Run = Callable[[Any, Sequence[Array]], Sequence[Array]]
_LOOSE = {"float16": 2e-3, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Outcome:
    """What became of a test: what is wrong, or why it is not supported, or nothing."""

    wrong: str = ""
    unsupported: str = ""

    @property
    def passed(self) -> bool:
        return not self.wrong and not self.unsupported


@functools.cache
def cases() -> tuple[Any, ...]:
    """Make all node tests, which takes seconds."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(collect_testcases(None))


def operator_of(case: Any) -> str:
    """Return the operator that a test is for, which is spelled out where its name says so."""
    (first, *rest) = case.model.graph.node
    return "" if rest or case.name.endswith("_expanded") else str(first.op_type)


def touches_float32(case: Any) -> bool:
    kinds = [one.type.tensor_type.elem_type for one in case.model.graph.input]
    return onnx.TensorProto.FLOAT in kinds


def as_array(given: Any) -> Array:
    if isinstance(given, onnx.TensorProto):
        return np.asarray(onnx.numpy_helper.to_array(given))
    return np.asarray(given)


def outcome(case: Any, run: Run) -> Outcome:
    """Run a test."""
    for inputs, outputs in case.data_sets:
        if not all(isinstance(one, (np.ndarray, np.generic, onnx.TensorProto)) for one in inputs):
            return Outcome(unsupported="input: it is no tensor of numbers")
        try:
            got = run(case.model, [as_array(one) for one in inputs])
        except UnsupportedError as error:
            return Outcome(unsupported=str(error.unsupported[0]))
        except ModelFormatError as error:
            return Outcome(wrong=str(error))
        for array, right in zip(got, map(as_array, outputs), strict=True):
            if array.shape != right.shape:
                return Outcome(wrong=f"a result has shape {array.shape}, not {right.shape}")
            wide, expected = (one.astype(np.float64) for one in (array, right))
            rtol = max(case.rtol, _LOOSE.get(right.dtype.name, 0))
            near = np.isclose(wide, expected, rtol, max(case.atol, 1e-6), equal_nan=True)
            if not near.all():
                at = np.unravel_index(int(np.argmin(near)), near.shape)
                return Outcome(wrong=f"{wide[at]} in place of {expected[at]} at {at}")
    return Outcome()
