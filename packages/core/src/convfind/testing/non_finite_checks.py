"""Checks that NaN and infinity reach the results that read them, and no others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np

from convfind.checking.accuracy import bound_of, spread_magnitude
from convfind.checking.plain_convolution import Doubles
from convfind.checking.reference import reference_convolution
from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver
from convfind.testing.device_checks import CorrectRun
from convfind.testing.guarded_run import POISON
from convfind.testing.numbers import Numbers
from convfind.testing.report import SolverReport
from convfind.testing.tensors import Array, Bytes, filled_memory
from convfind.types import Direction

Mask = np.ndarray[Any, np.dtype[np.bool_]]

#: The data that each direction reads: the tensor with padding, or gathered or scattered by w.
_DATA = {Direction.FORWARD: "x", Direction.BACKWARD_DATA: "y", Direction.BACKWARD_WEIGHTS: "x"}
#: The direction whose result is a tensor: each element is a sum over everything that reads it.
_READERS_OF = {
    "x": Direction.BACKWARD_DATA,
    "w": Direction.BACKWARD_WEIGHTS,
    "y": Direction.FORWARD,
}


@dataclass(frozen=True, slots=True)
class _Poison:
    """A value in elements of a tensor, and the results that must and may hold it."""

    tensor: str
    where: str
    value: float
    elements: Mask
    must: Mask
    may: Mask


class NonFiniteChecks:
    """Runs one solver's solutions on data with a NaN or an infinity."""

    def __init__(self, report: SolverReport, solver: Solver, seed: int) -> None:
        self._report = report
        self._solver = solver
        self._seed = seed

    def check(self, correct: CorrectRun) -> None:
        """Poison one element of each tensor that is read, at a time, and those that nobody reads.

        Results that read a NaN must be NaN, and those that read an infinity not finite; all others
        must be what they are without it. A value that meets a zero of the padding, or one that a
        stride puts between gradients, may be either, since zero times infinity is NaN; so may,
        where the solver `mixes_values`, be everything behind the same image.
        """
        numbers = correct.numbers
        problem = numbers.problem
        if not problem.dtype.is_float or problem.alpha == 0.0:
            return
        clean = _doubles(problem, correct.result)
        if not np.isfinite(clean).all():
            return
        allowed = self._allowed_errors(numbers)
        for poison in self._poisons(problem):
            values = numbers.values[poison.tensor].copy()
            values[poison.elements] = poison.value
            memory = filled_memory(problem, poison.tensor, values, POISON)
            with np.errstate(invalid="ignore"):  # of devices that compute with NumPy
                outcome = correct.memory.run({**numbers.memory, poison.tensor: memory})
            self._judge(problem, poison, _doubles(problem, outcome.result), clean, allowed)

    def _judge(
        self, problem: ConvProblem, poison: _Poison, result: Doubles, clean: Doubles, allowed: Array
    ) -> None:
        is_there = np.isnan(result) if np.isnan(poison.value) else ~np.isfinite(result)
        with np.errstate(invalid="ignore"):
            is_same = np.abs(result - clean) <= allowed
        head = f"{poison.value} at {poison.where} of {poison.tensor}"
        for wrong, what in (
            (poison.must & ~is_there, "is lost in {} results that read it, the first at {}"),
            (~poison.may & ~is_same, "reaches {} results that do not read it, the first at {}"),
        ):
            if wrong.any():
                at = tuple(int(index) for index in np.argwhere(wrong)[0])
                detail = f"{head} {what.format(int(wrong.sum()), at)}"
                self._report.fail("not finite", problem.key, detail)

    def _allowed_errors(self, numbers: Numbers) -> Array:
        """Return how far two results may differ if both have the largest error."""
        problem = numbers.problem
        magnitude = spread_magnitude(
            numbers.magnitude,
            self._solver.error_reach(problem),
            channels_last=problem.tensor_layout(problem.direction.writes).channels_last,
        )
        bound = bound_of(self._solver, problem)
        return 2.0 * bound.max_error * magnitude

    def _poisons(self, problem: ConvProblem) -> list[_Poison]:
        rng = np.random.default_rng((self._seed, crc32(problem.key.encode())))
        mixes = self._solver.mixes_values(problem)
        # An activation passes a NaN on, and may make anything of an infinity.
        values = (np.nan, np.inf) if problem.activation is None else (np.nan, np.nan)
        found = [_added(problem, name, rng) for name in problem.reads if name in ("bias", "z")]
        problem = problem.without_epilogue()
        for name in problem.direction.reads:
            shape = _memory_shape(problem, name)
            value = values[int(rng.integers(2))]
            # At corners and edges as often as not.
            at = tuple((0, size - 1, int(rng.integers(size)))[rng.integers(3)] for size in shape)
            elements = np.zeros(shape, np.bool_)
            elements[at] = True
            must = _readers(problem, name, elements)
            may = must | _meeting_zeros(problem, name, at)
            if mixes:
                may |= _behind_image(problem, name, at)
            found.append(_Poison(name, str(at), value, elements, must, may))
        data = _DATA[problem.direction]
        unread = _unread(problem, data)
        if unread.any() and not mixes:
            nobody = np.zeros(_memory_shape(problem, problem.direction.writes), np.bool_)
            found.append(_Poison(data, "all unread elements", np.nan, unread, nobody, nobody))
        return found


def _added(problem: ConvProblem, name: str, rng: np.random.Generator) -> _Poison:
    """A NaN in the bias, which all results of a channel read, or in z, which one reads if any."""
    shape = problem.operand(name).in_memory(problem.operand(name).shape)
    at = tuple(int(rng.integers(size)) for size in shape)
    elements = np.zeros(shape, np.bool_)
    elements[at] = True
    writes = problem.direction.writes
    readers = elements
    if name == "bias":
        is_last = problem.tensor_layout(writes).channels_last
        column = elements.reshape(-1, *(() if is_last else (1,) * problem.spatial_rank))
        readers = np.broadcast_to(column, _memory_shape(problem, writes))
    elif not problem.adds_z:
        readers = np.zeros_like(elements)
    return _Poison(name, str(at), np.nan, elements, readers, readers)


def _doubles(problem: ConvProblem, memory: Bytes) -> Doubles:
    with np.errstate(invalid="ignore"):
        return tensor_view(problem, problem.direction.writes, memory).astype(np.float64)


def _memory_shape(problem: ConvProblem, name: str) -> tuple[int, ...]:
    return problem.tensor_layout(name).to_memory(problem.shape(name))


def _readers(problem: ConvProblem, name: str, elements: Mask) -> Mask:
    """Return the results that have a tap on one of the elements, not counting padding."""
    plain = replace(problem, alpha=1.0, beta=0.0)
    first, second = (
        elements if read == name else np.ones(_memory_shape(problem, read))
        for read in problem.direction.reads
    )
    found: Mask = reference_convolution(plain, first, second) != 0
    return found


def _unread(problem: ConvProblem, name: str) -> Mask:
    """Return the elements of a tensor that no result reads."""
    turned = replace(problem.with_direction(_READERS_OF[name]), alpha=1.0, beta=0.0)
    first, second = (np.ones(_memory_shape(turned, read)) for read in turned.direction.reads)
    found: Mask = reference_convolution(turned, first, second) == 0
    return found


def _meeting_zeros(problem: ConvProblem, name: str, at: tuple[int, ...]) -> Mask:
    """The results in whose sums an element may meet a zero of the padding, or of the stride.

    Data meet weights and gradients only, never zeros.
    """
    writes = problem.direction.writes
    if name == _DATA[problem.direction]:
        return np.zeros(_memory_shape(problem, writes), np.bool_)
    channels_last = problem.tensor_layout(name).channels_last
    channel = at[-1] if channels_last else at[1]
    met = np.zeros(problem.shape(writes), np.bool_)
    if problem.direction is Direction.FORWARD:
        met[:, at[0]] = True
    elif problem.direction is Direction.BACKWARD_WEIGHTS:
        met[channel] = True
    else:
        group = at[0] // (problem.w_shape[0] // problem.groups)
        met[:, group * problem.w_shape[1] + channel] = True
    return np.moveaxis(met, 1, -1) if problem.tensor_layout(writes).channels_last else met


def _behind_image(problem: ConvProblem, name: str, at: tuple[int, ...]) -> Mask:
    """The results of the image of an element of the data; all results, where they have no image."""
    behind = np.ones(_memory_shape(problem, problem.direction.writes), np.bool_)
    if name == _DATA[problem.direction] and problem.direction.writes != "w":
        behind[...] = False
        behind[at[0]] = True
    return behind
