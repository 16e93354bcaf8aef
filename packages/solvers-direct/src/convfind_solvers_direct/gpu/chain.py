"""Small planes of one channel a group on GPUs, channels first: chains of images in local memory."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import UNIT_REGISTERS, copies_past_registers
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.search_space import Parameter
from convfind.types import DataType
from convfind_solvers_direct.gpu.conv import MOST_FLOATS, GpuDirect, OneLaunch, TileSolver, Work
from convfind_solvers_direct.window import Window

#: Registers of an item for sums, a row of values and weights, and its multiply-adds, all of them
#: straight code; fewer for AMD's compiler, which spills sooner. Chains keep weights meanwhile,
#: which a single image reads when they are due.
_MOST_REGISTERS, _MOST_REGISTERS_CHAINED, _LONGEST_CODE = 150, 120, 2800
_MOST_REGISTERS_AMD, _LONGEST_CODE_AMD = 100, 1400
#: Rows, and columns, of the largest planes.
_LARGEST = 31
#: Planes that the kernels count in 32 bits.
_MOST_PLANES = 2**28
#: Rows of so many floats begin in the same banks of local memory.
_BANKS = 16
#: Work-items that a unit needs, to have enough on its way.
_FEWEST_OF_UNIT = 256
_USUAL_ITEMS = 64
ITEMS = Parameter("items", (32, 64, 128, 256), "of a work-group")
CHAIN = Parameter("chain", (1, 2, 3, 4, 6, 8, 16), "images of a work-group, one after the other")


@dataclass(frozen=True, slots=True)
class Share:
    """The shares of an item and of a work-group."""

    planes: int  # of a work-group, of one image of a chain
    floats: int  # of local memory
    registers: int  # of an item, for sums, a row of values and weights
    code: int  # its multiply-adds


class ChainConv(OneLaunch, TileSolver):
    """A work-group copies neighbouring planes as they lie in memory, all at once.

    Each item has some rows of one in registers. The sizes of a plane are compiled in. In a chain
    of images, the next one's planes are on their way meanwhile, and weights are read once.
    """

    channels_last = False
    domain = replace(GpuDirect.domain.without(Trait.DILATION), dtypes=(DataType.FLOAT32,))
    arithmetic_share = 0.47
    is_dynamic = False
    _other_registers: ClassVar[int]  # of an item, of addresses and the like

    def _work(self, problem: ConvProblem, shape: Window, target: Target, config: Config) -> Work:
        chain, planes = config.integer("chain"), self._share(shape, config).planes
        macros = {
            **self._macros(shape, config),
            **config.without("chain").defines,
            "PLANES": planes,
            "BUFFERS": _buffers(config),
            "ASYNC": copies_past_registers(target),
        }
        # Where no image follows, work-groups need not end where an image does.
        images, groups = shape.images, shape.groups
        line, lines = (images * groups, 1) if chain == 1 else (groups, images)
        runs = -(-line // planes)
        numbers = (line, groups, lines, chain, runs)
        return Work(macros, numbers, runs * -(-lines // chain), config.integer("items"))

    def _judge_planes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        """Judge what the solvers have in common."""
        if max(*shape.size, *shape.out) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"planes beyond {_LARGEST} x {_LARGEST}")
        if _BANKS in (shape.size[1], shape.out[1]):
            return Rejected(Reason.SIZE_LIMIT, f"rows of {_BANKS} meet in the same memory banks")
        if shape.images * shape.groups > _MOST_PLANES:
            return Rejected(Reason.SIZE_LIMIT, f"more than {_MOST_PLANES} planes")
        if next(self._unchained(shape, target), None) is None:
            return Rejected(Reason.SIZE_LIMIT, "no band of rows fits registers and code")
        return APPLICABLE

    def _unchained(self, shape: Window, target: Target) -> Iterator[Config]:
        """Every legal config of one image."""
        all_items, all_rows, _ = self.parameters
        for items, rows in product(all_items.values, all_rows.values):
            config = Config(items=items, rows=rows, chain=1)
            if self.fits(shape, target, config):
                yield config

    def _nearest(self, shape: Window, target: Target, rows: int) -> Config:
        """Return the config of one image whose rows are nearest to those wanted, of two waves."""

        def distance(config: Config) -> tuple[int, int]:
            items = config.integer("items")
            return abs(config.integer("rows") - rows), abs(items - _USUAL_ITEMS)

        return min(self._unchained(shape, target), key=distance)

    def _chained(self, shape: Window, target: Target, config: Config) -> Config:
        """Return it with the shortest chain with which all work-groups run at a time.

        Where no chain is one, or units would be idle, a work-group has one image: as many turns
        of short ones end closer together. Without copies past the registers nothing comes
        meanwhile.
        """
        share, items = self._share(shape, config), config.integer("items")
        runs = -(-shape.groups // share.planes)
        # Items that a line's last run leaves idle, an eighth at most.
        if not copies_past_registers(target) or 8 * runs * share.planes > 9 * shape.groups:
            return config
        registers = (share.registers + self._other_registers) * items
        slots = target.compute_units * (UNIT_REGISTERS // registers)
        fewest = target.compute_units * _FEWEST_OF_UNIT // items
        for chain in (2, 4):
            longer = config.replace(chain=chain)
            work_groups = runs * -(-shape.images // chain)
            if fewest <= work_groups <= slots and self.fits(shape, target, longer):
                return longer
        return config

    def fits(self, shape: Window, target: Target, config: Config) -> bool:
        """Return whether a config's tile fits work-group, registers and local memory."""
        share, chain = self._share(shape, config), config.integer("chain")
        most = _MOST_REGISTERS if chain == 1 else _MOST_REGISTERS_CHAINED
        return (
            config.integer("items") <= target.max_work_group
            and config.integer("rows") <= shape.out[0]
            and share.planes > 0
            and share.floats + shape.size[1] <= MOST_FLOATS
            # AMD's compiler spills chains, which gain nothing without copies past the registers.
            and chain <= (1 if target.is_amd else shape.images)
            # Every line begins at a whole four.
            and (chain == 1 or shape.groups * _common(shape) % 4 == 0)
            and share.registers <= (_MOST_REGISTERS_AMD if target.is_amd else most)
            and share.code <= (_LONGEST_CODE_AMD if target.is_amd else _LONGEST_CODE)
        )

    @abstractmethod
    def _share(self, shape: Window, config: Config) -> Share:
        """Count what an item and a work-group have."""

    @abstractmethod
    def _macros(self, shape: Window, config: Config) -> dict[str, int]:
        """The kernel's macros beside those of gpu_chain.h."""


def planes_of(shape: Window, config: Config, band: int) -> int:
    """Return the planes of a work-group, which begins at a whole four; ``band`` rows an item."""
    held = config.integer("items") // -(-shape.out[0] // band)
    return held - held % (4 // math.gcd(_common(shape), 4))


def floats_of(shape: Window, config: Config, planes: int) -> int:
    """Return what source planes, and the next ones of a chain, take of local memory."""
    return _buffers(config) * planes * math.prod(shape.size)


def _buffers(config: Config) -> int:
    return 1 if config.integer("chain") == 1 else 2


def _common(shape: Window) -> int:
    """Floats of a plane, of source and result: what both are multiples of."""
    return math.gcd(math.prod(shape.size), math.prod(shape.out))
