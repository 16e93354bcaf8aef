"""Random contents of a problem's tensors: floating-point numbers, and whole ones for exact sums."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from convfind.checking.pieces import side_by_side, slices_of
from convfind.problem import ConvProblem
from convfind.types import DataType, Direction

Array = np.ndarray[Any, Any]
Distribution = Literal["uniform", "normal", "wide", "clipped"]

#: Up to here every whole number is a value of the type.
LARGEST_WHOLE = {
    DataType.FLOAT64: 2**53,
    DataType.FLOAT32: 2**24,
    DataType.FLOAT16: 2**11,
    DataType.BFLOAT16: 2**8,
    DataType.INT32: 2**31 - 1,
}
#: Elements that one generator draws.
_DRAWN_AT_ONCE = 1 << 18
#: Elements that are drawn; larger tensors repeat them. No tensor has dimensions whose product this
#: prime divides, so whoever reads a wrong element hardly ever reads the same number.
_DRAWN = 4_194_301
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
    if distribution not in get_args(Distribution):
        msg = f"distribution {distribution!r} is not one of {', '.join(get_args(Distribution))}"
        raise ValueError(msg)
    rng = np.random.default_rng(seed)
    first, second = (
        _random_tensor(problem, name, rng, distribution) for name in problem.direction.reads
    )
    if distribution == "wide" and problem.dtype.is_float:
        second *= second.dtype.type(2.0 ** -round(math.log2(problem.reduction) / 2))
    return first, second


def _random_tensor(
    problem: ConvProblem, name: str, rng: np.random.Generator, distribution: Distribution
) -> Array:
    """Draw a tensor; a large one in pieces, each by a generator of its own, and copies of them."""
    shape = problem.tensor_layout(name).to_memory(problem.shape(name))
    dtype = problem.tensor_dtype(name)
    values = np.empty(math.prod(shape), dtype.numpy)
    drawn = values[:_DRAWN]
    places = slices_of(drawn.size, _DRAWN_AT_ONCE)
    generators = [rng] if len(places) < 2 else rng.spawn(len(places))

    def draw(piece: tuple[slice, np.random.Generator]) -> None:
        place, own = piece
        values[place] = _random_values(own, place.stop - place.start, dtype, distribution)

    def repeat(place: slice) -> None:
        values[place] = drawn[: place.stop - place.start]

    side_by_side(draw, list(zip(places, generators, strict=False)))
    side_by_side(repeat, slices_of(values.size, _DRAWN)[1:])
    return values.reshape(shape)


def _random_values(
    rng: np.random.Generator, count: int, dtype: DataType, distribution: Distribution
) -> Array:
    if not dtype.is_float:
        return rng.integers(-128, 128, count, np.int8)
    kind: Any = np.float64 if dtype is DataType.FLOAT64 else np.float32
    if distribution == "normal":
        values = rng.standard_normal(count, kind)
    else:
        values = rng.random(count, kind)
        values *= 2
        values -= 1
        if distribution == "clipped":
            values *= 1.125
            np.clip(values, -1, 1, out=values)
            values[np.abs(values) < 0.0625] = 0
        if distribution == "wide":
            octaves = 4 if dtype is DataType.FLOAT16 else 12
            signs = 2 * rng.integers(0, 2, count, np.int8) - 1
            values = np.exp2(octaves * values) * signs
    return values.astype(dtype.numpy, copy=False)


def random_operands(
    problem: ConvProblem, seed: int, distribution: Distribution = "uniform"
) -> dict[str, Array]:
    """Return the same, and bias and z where the problem has them, -1 to 1, by name."""
    pair = random_data(problem, seed, distribution)
    found = dict(zip(problem.direction.reads, pair, strict=True))
    for name in problem.reads[len(found) :]:
        found[name] = _random_addend(problem, name, seed)
    return found


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
