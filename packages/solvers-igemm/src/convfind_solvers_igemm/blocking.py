"""How a product is cut into work-items: enough for all cores, with the least memory traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace


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


#: Work-items a core, so that cores that are slowed down get fewer.
_ITEMS_PER_CORE = 4


def cut(product: Product, cores: int) -> Cut:
    """Return the cut that reads the least.

    Each run of positions reads all weights, each run of filters gathers all positions.
    """
    wanted = _wanted(product, cores)
    rows = -(-product.filters // product.filter_unit)
    columns = -(-product.positions // product.position_unit)
    least_shares = -(-product.filters // product.most_filters)
    best: tuple[int, int] | None = None
    least = 0
    for across in range(least_shares, min(rows, max(wanted, least_shares)) + 1):
        along = min(columns, -(-wanted // across))
        cost = along * product.filters + across * product.positions
        if along * across < wanted:
            cost += product.filters * product.positions  # an idle core is worse than any reading
        if best is None or cost < least:
            best, least = (across, along), cost
    across, along = best if best is not None else (least_shares, 1)
    return Cut(
        -(-columns // along) * product.position_unit,
        -(-rows // across) * product.filter_unit,
    )


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
    limit = min(_wanted(product, cores), units)
    limit = max(1, limit if most_parts is None else min(limit, most_parts))
    best: SplitCut | None = None
    least = 0
    for power in range(limit.bit_length()):
        span = -(-units // 2**power) * unit
        parts = -(-reduction // span)
        pieces = cut(replace(product, groups=product.groups * parts), cores)
        along = -(-product.positions // pieces.positions)
        across = -(-product.filters // pieces.filters)
        cost = (along * product.filters + across * product.positions) * reduction
        if parts > 1:
            cost += 2 * parts * product.filters * product.positions
        if along * across * parts < _wanted(product, cores):
            cost += product.filters * product.positions * reduction
        if best is None or cost < least:
            best, least = SplitCut(pieces, parts, span), cost
    assert best is not None
    return best


def _wanted(product: Product, cores: int) -> int:
    """Work-items of a group that keep all cores busy."""
    return 1 if cores == 1 else -(-_ITEMS_PER_CORE * cores // product.groups)
