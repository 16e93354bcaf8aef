"""Memory of tensors, including gaps, filled and masked for checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Array = np.ndarray[Any, Any]


def filled_memory(problem: ConvProblem, tensor: str, values: Array | None, filler: int) -> Bytes:
    """Return the bytes of a tensor; gaps, or everything without values, are filler."""
    memory = np.full(problem.nbytes(tensor), filler, np.uint8)
    if values is not None:
        tensor_view(problem, tensor, memory)[...] = values
    return memory


def gap_mask(problem: ConvProblem, tensor: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the bytes of a tensor's memory that belong to no element."""
    size = problem.tensor_dtype(tensor).size
    memory = np.zeros(problem.nbytes(tensor), np.uint8)
    strides = (*(step * size for step in problem.strides(tensor)), 1)
    np.ndarray((*problem.shape(tensor), size), np.uint8, memory.data, 0, strides)[...] = 1
    mask: np.ndarray[Any, np.dtype[np.bool_]] = memory == 0
    return mask
