"""How a product is cut into work-items: enough for all cores, with the least memory traffic."""

from __future__ import annotations

from dataclasses import dataclass


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
    wanted = 1 if cores == 1 else -(-_ITEMS_PER_CORE * cores // product.groups)
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
