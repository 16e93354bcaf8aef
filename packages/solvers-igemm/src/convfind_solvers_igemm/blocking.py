"""How a product is cut into work-items: as much for every core, with little memory traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Cut:
    """Positions and filters of one work-item."""

    positions: int
    filters: int


@dataclass(frozen=True, slots=True)
class Product:
    """A product to cut: its size, and the units that a work-item takes whole."""

    positions: int
    filters: int
    groups: int
    position_unit: int
    filter_unit: int
    most_filters: int  # a block of so many filters' weights stays in the level-2 cache


#: Work-items a core at most; more would even out little, and read operands again.
_ITEMS_PER_CORE = 8
#: Products that take as long as reading an element of an operand, or a sum of a part.
_READ = 24
#: Panels of weights that a work-item packs at most, and what it costs to leave one to another:
#: neighbours share lines of memory.
_PACKED_AT_ONCE, _ALONE = 4, 0.1
#: Numbers of runs that are tried: of filters, and with each of them of positions; and so many of
#: those that give every core as many.
_TRIED, _EVEN = 16, 8
#: The delay of a slower core, in parts of its last work-item.
_LATE = 1 / 16


@lru_cache(maxsize=1024)
def cut(product: Product, cores: int) -> Cut:
    """Return the cut that takes the least time.

    Each run of positions reads all weights, each run of filters gathers all positions; and cores
    that get fewer work-items wait for the others.
    """
    fewest, most = -(-cores // product.groups), _most_items(product, cores)
    rows = -(-product.filters // product.filter_unit)
    columns = -(-product.positions // product.position_unit)
    least_shares = -(-product.filters // product.most_filters)
    best, least = Cut(0, 0), math.inf
    for across in _steps(least_shares, max(least_shares, min(rows, most)), fewest):
        share = -(-rows // across) * product.filter_unit
        enough = -(-fewest // across)
        for along in _steps(min(columns, enough), min(columns, -(-most // across)), enough):
            run = -(-columns // along) * product.position_unit
            cost = _cost(product, run, share, cores)
            if cost < least:
                best, least = Cut(run, share), cost
    return best


@dataclass(frozen=True, slots=True)
class SplitCut:
    """A cut of a product whose reduction is split, too."""

    cut: Cut
    parts: int  # of the reduction, each with sums of its own
    span: int  # of the reduction, in a part


def split_cut(
    product: Product, reduction: int, unit: int, cores: int, most_parts: int | None = None
) -> SplitCut:
    """Return the cut that moves the least where sums of parts are written and read again.

    A part is at least ``unit`` long; ``most_parts`` is what the workspace has room for.
    """
    units = -(-reduction // unit)
    limit = min(_most_items(product, cores), units)
    limit = max(1, limit if most_parts is None else min(limit, most_parts))
    best: SplitCut | None = None
    least = math.inf
    for power in range(limit.bit_length()):
        span = -(-units // 2**power) * unit
        parts = -(-reduction // span)
        split = replace(product, groups=product.groups * parts)
        pieces = cut(split, cores)
        cost = span * _cost(split, pieces.positions, pieces.filters, cores)
        if parts > 1:
            cost += 2 * _READ * split.groups * product.filters * product.positions / cores
        if cost < least:
            best, least = SplitCut(pieces, parts, span), cost
    assert best is not None
    return best


def packed_at_once(panels: int, groups: int, cores: int) -> int:
    """Return how many panels of each group's weights a work-item packs."""

    def cost(count: int) -> float:
        rounds = -(-groups * -(-panels // count) // cores)
        return rounds * count * (1 + _ALONE * (_PACKED_AT_ONCE - count))

    return min(range(_PACKED_AT_ONCE, 0, -1), key=cost)


def _cost(product: Product, run: int, share: int, cores: int) -> float:
    """Time, in products, of each step of the reduction; ``run`` and ``share`` are a work-item's."""
    groups = product.groups
    columns = -(-product.positions // product.position_unit) * product.position_unit
    rows = -(-product.filters // product.filter_unit) * product.filter_unit
    along, across = -(-columns // run), -(-rows // share)
    read = groups * (along * product.filters + across * product.positions)
    late = _LATE * run * share if cores > 1 else 0
    return _longest(columns, rows, groups, run, share, cores) + late + _READ * read / cores


def _longest(columns: int, rows: int, groups: int, run: int, share: int, cores: int) -> float:
    """Return what the core that has most to do does."""
    along, across, right, below = columns // run, rows // share, columns % run, rows % share
    whole = groups * along * across
    smaller = groups * -(-columns // run) * -(-rows // share) - whole
    rest = (groups * columns * rows - whole * run * share) / max(1, min(cores, smaller))
    longest = whole // cores * run * share + rest
    # Some core gets an equal share, rounded up, of items that are not smaller than one of them.
    kinds = ((run * share, along * across), (right * share, across), (run * below, along))
    items = 0
    for size, count in sorted((*kinds, (right * below, 1)), reverse=True):
        items += groups * count
        longest = max(longest, -(-items // cores) * size)
    return longest


def _most_items(product: Product, cores: int) -> int:
    """Work-items of a group at most, unless caches ask for more."""
    return 1 if cores == 1 else -(-_ITEMS_PER_CORE * cores // product.groups)


def _steps(first: int, last: int, even: int) -> Iterable[int]:
    """Some numbers from ``first`` to ``last``, with the first multiples of one."""
    spread = range(first, last + 1, -(-(last - first + 1) // _TRIED))
    multiples = range(-(-first // even) * even, last + 1, even)[:_EVEN]
    return sorted({*spread, *multiples})
