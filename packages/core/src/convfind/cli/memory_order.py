"""Runs solutions on arrays whose axes are in the order of their layouts, whatever their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.runtime.tensors import axes_of, form_of, in_memory_order, in_order
from convfind.types import Layout

Array = np.ndarray[Any, Any]


def run_in_memory_order(
    handle: Handle, problem: ConvProblem, solution: Solution, tensors: Mapping[str, Array]
) -> Array:
    """Run a solution on the arrays that it reads, by name.

    Arrays and result have their axes in the order of their layouts (N, H, W, C for NHWC), which the
    calls of `Handle` refuse where N, C, H, W would be the same shape.
    """
    first = Layout.of(problem.spatial_rank)
    shown = {name: in_order(problem, name, array, first) for name, array in tensors.items()}
    told = (axes_of(problem, name, form_of(array)) for name, array in shown.items())
    axes = first if any(told) else None
    result = np.asarray(handle.run(solution, **shown))
    return in_memory_order(problem, problem.direction.writes, result, axes)
