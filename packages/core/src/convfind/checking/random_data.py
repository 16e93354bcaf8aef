"""Random contents of a problem's tensors: floating-point numbers, and whole ones for exact sums."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from convfind.checking.random_numbers import (
    COUNT,
    Distribution,
    Part,
    ring_of,
    start_of,
)
from convfind.problem import ConvProblem
from convfind.types import DataType, Direction

Array = np.ndarray[Any, Any]

#: Up to here every whole number is a value of the type.
LARGEST_WHOLE = {
    DataType.FLOAT64: 2**53,
    DataType.FLOAT32: 2**24,
    DataType.FLOAT16: 2**11,
    DataType.BFLOAT16: 2**8,
    DataType.INT32: 2**31 - 1,
}
_SPARSE = {  # the tensor that gets zeros, so that sums stay small
    Direction.FORWARD: "w",
    Direction.BACKWARD_DATA: "w",
    Direction.BACKWARD_WEIGHTS: "y",
}


def random_data(
    problem: ConvProblem, seed: int, distribution: Distribution = "uniform"
) -> tuple[Array, Array]:
    """Return random contents of the two tensors that the problem reads.

    They are in the order of ``direction.reads``, axes in the order of the layout in memory, in the
    types of the problem. ``uniform`` is -1 to 1, ``normal`` the normal distribution, ``wide`` has
    evenly spread exponents, scaled so that no result overflows. ``clipped`` has values that data of
    networks have and the others do not: one in nine is -1 or 1, one in eighteen 0. int8 is uniform
    over its range.
    """
    first, second = problem.direction.reads
    return (
        random_operand(problem, first, seed, distribution),
        random_operand(problem, second, seed, distribution),
    )


def random_parts(
    problem: ConvProblem, seed: int, distribution: Distribution = "uniform"
) -> dict[str, Part]:
    """Return the random numbers of these tensors, by name; ``wide`` ones are to be scaled.

    Those of a z of floating-point numbers are among them, -1 to 1.
    """
    if distribution not in get_args(Distribution):
        msg = f"distribution {distribution!r} is not one of {', '.join(get_args(Distribution))}"
        raise ValueError(msg)
    names = [*problem.direction.reads, *(["z"] if problem.adds_z else [])]
    starts = np.random.default_rng(seed).integers(COUNT, size=len(names))
    parts = {}
    for ring, (name, drawn) in enumerate(zip(names, starts, strict=True)):
        dtype, count = problem.tensor_dtype(name), math.prod(problem.shape(name))
        if name != "z" or dtype.is_float:
            numbers = ring_of(dtype, "uniform" if name == "z" else distribution, ring)
            parts[name] = Part(numbers, start_of(count, int(drawn)), count)
    return parts


def random_operands(
    problem: ConvProblem, seed: int, distribution: Distribution = "uniform"
) -> dict[str, Array]:
    """Return the same, and bias and z where the problem has them, -1 to 1, by name."""
    return {name: random_operand(problem, name, seed, distribution) for name in problem.reads}


def random_operand(
    problem: ConvProblem, name: str, seed: int, distribution: Distribution = "uniform"
) -> Array:
    """Return one of them."""
    part = random_parts(problem, seed, distribution).get(name)
    if part is None:
        return _random_addend(problem, name, seed)
    values = part.values().reshape(problem.tensor_layout(name).to_memory(problem.shape(name)))
    is_second = name == problem.direction.reads[1]
    if distribution == "wide" and is_second and problem.dtype.is_float:
        values *= values.dtype.type(2.0 ** -round(math.log2(problem.reduction) / 2))
    return values


def _random_addend(problem: ConvProblem, name: str, seed: int) -> Array:
    rng = np.random.default_rng((seed, len(name)))
    shape = problem.tensor_layout(name).to_memory(problem.shape(name))
    dtype = problem.tensor_dtype(name)
    if not dtype.is_float:
        return rng.integers(-128, 128, shape).astype(dtype.numpy)
    return (2 * rng.random(shape) - 1).astype(dtype.numpy)


def integer_data(problem: ConvProblem, seed: int) -> tuple[Array, Array]:
    """Return small whole numbers on which plain summation is exact, in any order.

    Every partial sum is a whole number that the accumulator holds, and every result one that the
    result's type holds: not by chance, but because the products behind a result are bounded. Where
    that allows only few products, most of the weights (backward weights: of the gradient) are 0,
    at random places. Order and form are those of `random_data`.
    """
    rng = np.random.default_rng(seed)
    plain = problem.plain()
    largest, count = _bounds(plain)
    tensors = {}
    for name in plain.direction.reads:
        if name == _SPARSE[plain.direction]:
            tensors[name] = _sparse_tensor(plain, rng, largest, count)
        else:
            tensors[name] = rng.integers(-largest, largest + 1, plain.shape(name), np.int8)
    return (
        _in_memory(problem, problem.direction.reads[0], tensors),
        _in_memory(problem, problem.direction.reads[1], tensors),
    )


def _bounds(problem: ConvProblem) -> tuple[int, int]:
    """Return the largest value, and how many products behind a result may differ from 0."""
    terms = problem.reduction
    limit = LARGEST_WHOLE[problem.tensor_dtype(problem.direction.writes)]
    values = (127, 31) if problem.dtype is DataType.INT8 else ()
    for largest in (*values, 8, 4, 3, 2):
        count = limit // largest**2
        if 4 * count >= terms:
            return largest, min(count, terms)
    return 1, min(limit, terms)


def _sparse_tensor(
    problem: ConvProblem, rng: np.random.Generator, largest: int, count: int
) -> Array:
    """Return, in N, C, spatial order, numbers of which at most ``count`` go into any one result."""
    groups, terms = problem.groups, problem.reduction
    name = _SPARSE[problem.direction]
    shape = problem.shape(name)
    rows = math.prod(shape) // terms
    if count == terms:
        values = rng.integers(-largest, largest + 1, (rows, terms), np.int8)
    else:
        values = np.zeros((rows, terms), np.int8)
        chosen = rng.integers(0, terms, (rows, count))
        signs = 2 * rng.integers(0, 2, (rows, count), np.int8) - 1
        drawn = rng.integers(1, largest + 1, (rows, count), np.int8)
        np.put_along_axis(values, chosen, drawn * signs, axis=1)
    if problem.direction is Direction.FORWARD:
        return values.reshape(shape)
    if problem.direction is Direction.BACKWARD_WEIGHTS:
        return values.reshape(shape[1], shape[0], *shape[2:]).swapaxes(0, 1)
    by_group = values.reshape(groups, shape[1], shape[0] // groups, *shape[2:])
    return by_group.swapaxes(1, 2).reshape(shape)


def _in_memory(problem: ConvProblem, name: str, tensors: dict[str, Array]) -> Array:
    tensor = tensors[problem.plain_name(name)]
    if problem.tensor_layout(name).channels_last:
        tensor = np.moveaxis(tensor, 1, -1)
    return np.ascontiguousarray(tensor, problem.tensor_dtype(name).numpy)
