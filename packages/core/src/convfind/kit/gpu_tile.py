"""`GpuTile`: the work-groups of matrix products on GPUs; `TileRate`: how fast they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Self

from convfind.device.target import Target
from convfind.kit.sizes import ceil_div
from convfind.solver.config import Config
from convfind.solver.search_space import Constraint, Parameter


@dataclass(frozen=True, slots=True)
class ConfigTile:
    """Whole numbers of a config as a value, whose fields have the names of tuning parameters."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """Read a config; what it does not mention has its default."""
        return cls(**{f.name: config.integer(f.name) for f in fields(cls) if f.name in config})

    @property
    def values(self) -> dict[str, int]:
        """The parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def constraint(cls, name: str, holds: Callable[[Self], bool], why: str) -> Constraint:
        """Return a condition on the tile of a config."""
        return Constraint(name, lambda config: holds(cls.of(config)), why)

    @classmethod
    def parameters(
        cls, tiles: Iterable[ConfigTile], meanings: Mapping[str, str]
    ) -> tuple[Parameter, ...]:
        """Return the parameters by their meanings, each with the values that tiles have of it."""
        found = [tile.values for tile in tiles]
        return tuple(
            Parameter(name, tuple(sorted({values[name] for values in found})), meaning)
            for name, meaning in meanings.items()
        )


@dataclass(frozen=True, slots=True)
class ProductTile(ConfigTile):
    """Results of a work-group.

    Attributes:
        tile_m: rows of a work-group.
        tile_n: columns of a work-group.
    """

    tile_m: int
    tile_n: int

    def count(self, rows: int, columns: int) -> int:
        """Return the work-groups of a product."""
        return ceil_div(rows, self.tile_m) * ceil_div(columns, self.tile_n)


@dataclass(frozen=True, slots=True)
class GpuTile(ProductTile):
    """Results of a work-group and how its items share them, by the names of tuning parameters.

    A kernel's own tile adds what it has beside these, with defaults.

    Attributes:
        tile_k: depth of the tiles in local memory.
        threads_m: work-items along the rows.
        threads_n: work-items along the columns.
    """

    tile_k: int
    threads_m: int
    threads_n: int

    @property
    def threads(self) -> int:
        """Items of a work-group."""
        return self.threads_m * self.threads_n

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of an item."""
        return self.tile_m // self.threads_m, self.tile_n // self.threads_n


@dataclass(frozen=True, slots=True)
class TileRate:
    """The rate that a tile reached on an H200 (132 units), in GFLOP/s a unit.

    Attributes:
        full: with every place on the unit taken.
        single: one work-group alone on its unit.
        resident: places on a unit.
        around: steps of the sum that take as long as what comes before and after it.
    """

    full: int
    single: int
    resident: int
    around: int = 0

    def seconds(self, tile: ProductTile, steps: float, groups: int, units: int) -> float:
        """Return the time of so many work-groups: of whole rounds, then of what is left.

        ``steps`` is the length of the sum of each.
        """
        operations = 2 * (steps + self.around) * tile.tile_m * tile.tile_n
        return operations * self.busy(groups, units) * 1e-9

    def busy(self, groups: int, units: int) -> float:
        """Return the time of the busiest unit, in ns for each operation of a work-group.

        Whole rounds go at full speed, then comes what is left.
        """
        rounds, rest = divmod(ceil_div(groups, units), self.resident)
        last = rest / min(rest * self.single, self.full) if rest else 0.0
        return rounds * self.resident / self.full + last


def declarable_memory(target: Target, nvidias: int) -> int:
    """Return the bytes of local memory that a kernel may declare.

    ``nvidias`` is what NVIDIA's compiler grants the kernel from sm_80 on: devices report 48 KiB.
    """
    if target.compute_capability >= 80:
        return max(target.local_memory, nvidias)
    return target.local_memory
