"""Recorded neighbours of a problem: finding them, and encoding them as network inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.values import LARGEST_SIZE


class Relation(StrEnum):
    """Relation of a recorded problem to the one that is asked about."""

    SIBLING = "sibling"  # the same problem, on another device of the family
    BATCH = "batch"  # the same layer with another batch size, on the same device


class Neighbour(NamedTuple):
    """A recorded problem near the one that is asked about; at least one time."""

    relation: Relation
    device: str  # identity
    problem: ConvProblem
    times: Mapping[str, float]  # milliseconds by versioned id


#: Returns the recorded times of a plain problem on a device, by versioned id; empty without any.
Records = Callable[[str, ConvProblem], Mapping[str, float]]

#: Batch sizes to look up, relative to the problem's, nearest first.
BATCH_RATIOS = (2.0, 0.5, 4.0, 0.25, 8.0, 0.125)

#: Sizes of images to look up, relative to the problem's, nearest first; 8/7 leads from 224 to 256.
SIZE_RATIOS = ((8, 7), (7, 8), (2, 1), (1, 2))

#: Inputs for a neighbour besides those of the solvers: its presence, its speed, its batch size.
MORE_INPUTS = 3

#: Power of speeds relative to the fastest: all but the first few solvers look the same.
SPEED_POWER = 5


def find_neighbours(
    problem: ConvProblem,
    device: str,
    siblings: Sequence[str],
    relations: frozenset[Relation],
    records: Records,
) -> tuple[Neighbour, ...]:
    """Return the nearest record of each relation, in the order of `Relation`.

    Args:
        problem: a plain problem.
        device: identity of the device that is asked about.
        siblings: identities of its siblings; the first one with a record counts.
        relations: the relations to look for.
        records: the database.
    """
    found = []
    if Relation.SIBLING in relations:
        candidates = ((sibling, problem) for sibling in siblings if sibling != device)
        found.append(_first(Relation.SIBLING, candidates, records))
    if Relation.BATCH in relations:
        near = ((device, other) for _, other in other_batches(problem))
        found.append(_first(Relation.BATCH, near, records))
    return tuple(neighbour for neighbour in found if neighbour is not None)


def other_batches(problem: object) -> tuple[tuple[float, ConvProblem], ...]:
    """Return the same layer at other batch sizes, nearest first, after the ratio of its size."""
    return _batches(problem) if isinstance(problem, ConvProblem) else ()


# Finds of a network ask twice, before anything is compiled and before they measure.
@lru_cache(maxsize=256)
def _batches(problem: ConvProblem) -> tuple[tuple[float, ConvProblem], ...]:
    return tuple(_at_batches(problem))


def _at_batches(problem: ConvProblem) -> Iterator[tuple[float, ConvProblem]]:
    for ratio in BATCH_RATIOS:
        size = problem.x_shape[0] * ratio
        if 1 <= size <= LARGEST_SIZE and size.is_integer():
            yield ratio, problem.with_batch(int(size))


def other_sizes(problem: object) -> tuple[tuple[float, ConvProblem], ...]:
    """Return the same layer on larger and smaller images, nearest first, after the ratio of sizes.

    Ratios are those of one axis.
    """
    return _sizes(problem) if isinstance(problem, ConvProblem) else ()


@lru_cache(maxsize=256)
def _sizes(problem: ConvProblem) -> tuple[tuple[float, ConvProblem], ...]:
    return tuple(_at_sizes(problem))


def _at_sizes(problem: ConvProblem) -> Iterator[tuple[float, ConvProblem]]:
    for more, less in SIZE_RATIOS:
        sizes = [divmod(more * axis, less) for axis in problem.x_shape[2:]]
        if all(rest == 0 and size <= LARGEST_SIZE for size, rest in sizes):
            shape = (*problem.x_shape[:2], *(size for size, _ in sizes))
            with suppress(ProblemError):  # the filter is larger than such images
                yield more / less, replace(problem, x_shape=shape, x_strides=None, y_strides=None)


def _first(
    relation: Relation, candidates: Iterator[tuple[str, ConvProblem]], records: Records
) -> Neighbour | None:
    for device, problem in candidates:
        times = records(device, problem)
        if times:
            return Neighbour(relation, device, problem, times)
    return None


def write_inputs(
    neighbour: Neighbour,
    batch: int,
    columns: Mapping[str, int],
    rest: int,
    work: float,
    least: float,
    inputs: MutableSequence[float],
) -> None:
    """Write a neighbour's network inputs: the speed of each solver, then those of the whole record.

    Args:
        neighbour: the record.
        batch: batch size of the problem that is asked about.
        columns: index of each versioned id that the network knows.
        rest: index of the first of `MORE_INPUTS`.
        work: milliseconds that the problem's work should take.
        least: milliseconds that any problem takes.
        inputs: all inputs, initially 0.
    """
    times = neighbour.times
    best = min(times.values())
    for name, time in times.items():
        column = columns.get(name)
        if column is not None:
            inputs[column] = (best / time) ** SPEED_POWER
    ratio = neighbour.problem.x_shape[0] / batch
    inputs[rest] = 1.0
    inputs[rest + 1] = math.log(best / (work * ratio + least))
    inputs[rest + 2] = math.log2(ratio)
