"""`RandomNumbers`: a ring of random numbers, drawn once; tensors have parts of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from convfind.checking.pieces import side_by_side, slices_of
from convfind.types import DataType

Array = np.ndarray[Any, Any]
Distribution = Literal["uniform", "normal", "wide", "clipped"]

#: Numbers in a ring; larger tensors repeat them. No tensor has dimensions whose product this prime
#: divides, so whoever reads a wrong element hardly ever reads the same number.
COUNT = 4_194_301
#: Numbers that one generator draws, and that one thread copies.
_DRAWN_AT_ONCE, _COPIED_AT_ONCE = 1 << 18, 1 << 20
#: Numbers that parts begin at multiples of, so that they lie in memory as tensors do, and among how
#: many such places. There are no more, because fresh pages for copies of them cost more than runs.
_STEP, _PLACES = 1 << 10, 1 << 8


class RandomNumbers:
    """A ring of random numbers of one type, drawn as far as they are asked for."""

    def __init__(self, dtype: DataType, distribution: Distribution, seed: int) -> None:
        #: Rings of one name have the same numbers.
        self.name = ("ring", dtype, distribution, seed)
        self._dtype = dtype
        self._distribution = distribution
        self._seed = seed
        self.ring = np.empty(COUNT, dtype.numpy)  # of which some may not be drawn yet
        self._blocks = slices_of(COUNT, _DRAWN_AT_ONCE)
        self._drawn: set[int] = set()

    def whole(self) -> Array:
        """Return all of them."""
        side_by_side(self._draw, sorted(set(range(len(self._blocks))) - self._drawn))
        return self.ring

    def part(self, start: int, count: int) -> Array:
        """Return so many numbers from a place on, in memory of their own."""
        values = np.empty(count, self._dtype.numpy)
        places = self._places(start, count)
        self._make([(at, size) for _, at, size in places])

        def copy(place: tuple[int, int, int]) -> None:
            to, at, size = place
            values[to : to + size] = self.ring[at : at + size]

        side_by_side(copy, places)
        return values

    def seen(self, start: int, count: int) -> Array:
        """Return so many numbers from a place on, up to the ring's end, where they lie in it."""
        self._make([(start, count)])
        values = self.ring[start : start + count]
        values.flags.writeable = False
        return values

    def _make(self, places: Iterable[tuple[int, int]]) -> None:
        """Draw what is not drawn yet of some places, each so many numbers from one on."""
        blocks = {block for at, size in places for block in _blocks_of(at, size)}
        side_by_side(self._draw, sorted(blocks - self._drawn))

    def _places(self, start: int, count: int) -> list[tuple[int, int, int]]:
        """Return what is copied where: a place of the result, one of the ring, and how many."""
        places = []
        done = 0
        while done < count:
            at = (start + done) % COUNT
            size = min(count - done, COUNT - at, _COPIED_AT_ONCE)
            places.append((done, at, size))
            done += size
        return places

    def _draw(self, block: int) -> None:
        """Draw a block; threads may do so at once, as they draw the same."""
        rng = np.random.default_rng((self._seed, block))
        place = self._blocks[block]
        count = place.stop - place.start
        self.ring[place] = _random_values(rng, count, self._dtype, self._distribution)
        self._drawn.add(block)


@dataclass(frozen=True, slots=True)
class Part:
    """So many numbers of a ring, from a place on."""

    numbers: RandomNumbers
    start: int
    count: int

    @property
    def is_in_one_piece(self) -> bool:
        """True if the ring's end is not among them."""
        return self.start + self.count <= COUNT

    def values(self) -> Array:
        """Return them, in memory of their own."""
        return self.numbers.part(self.start, self.count)

    def some(self, shape: tuple[int, ...], places: Mapping[int, Array]) -> Array:
        """Return a part of a packed array of this shape: some places of some axes, by axis."""
        row = math.prod(shape[1:])

        def some_of(at: int) -> Array:
            values = self.numbers.part(self.start + int(at) * row, row).reshape(shape[1:])
            for axis, chosen in places.items():
                values = values.take(chosen, axis - 1) if axis else values
            return values

        return np.stack(side_by_side(some_of, [*places.get(0, np.arange(shape[0]))]))


def start_of(count: int, drawn: int) -> int:
    """Return where a part of so many numbers begins, by a number drawn below `COUNT`.

    Where the ring is larger by all places that are drawn among, it lies in one piece.
    """
    place = drawn // _STEP if count + _PLACES * _STEP > COUNT else drawn % _PLACES
    return place * _STEP


# A check of all types takes two distributions of each tensor. Only what is drawn takes memory.
@lru_cache(maxsize=32)
def ring_of(dtype: DataType, distribution: Distribution, seed: int) -> RandomNumbers:
    """Return a ring of this process; those of different seeds have nothing in common."""
    return RandomNumbers(dtype, distribution, seed)


def _blocks_of(at: int, size: int) -> range:
    return range(at // _DRAWN_AT_ONCE, (at + size - 1) // _DRAWN_AT_ONCE + 1)


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
