"""The weight gradient of first layers on CPUs, by Winograd over phases of images or filters."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, even_parts, fill, has_many_registers
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import BufferArg, Memory, Recipe, align
from convfind.types import Direction
from convfind_solvers_direct.cpu.phases import BLOCK, FREQUENCIES, Blocks, Phases
from convfind_solvers_direct.cpu.phases_solver import PhasesSolver
from convfind_solvers_direct.cpu.solver import VECTOR, items_wanted, program_of
from convfind_solvers_direct.window import window

#: Tiles whose products are added at a time.
_TILES = 28
#: Numbers of a virtual pixel, of phases and of blocks, and vectors of filters in registers: of 32
#: of 16 floats, and of 16 of 8.
_MANY, _FEW = (8, 9, 2), (6, 6, 1)
#: Floats of sums that a level-2 cache still has most of.
_MOST_SUMS = 2**19
#: A part of fewer tiles spends its time on clearing and transforming sums: then a part a core.
_TILES_OF_PART = 112
#: The cost of pixels of y beside their products, in products of a filter: their transforms.
_REST = 21.0


class CpuFirstPhasesWeights(PhasesSolver):
    """w from x and y: sums of parts, added up by a second launch in a fixed order."""

    prefix = "direct-cpu-first-phases"
    direction = Direction.BACKWARD_WEIGHTS
    version = 2

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take no more filters than caches have room for."""
        if not (answer := super().applicability(problem, target)):
            return answer
        phases = self.cut(window(problem))
        if (sums := max(_sums(phases, many) for many in (False, True))) > _MOST_SUMS:
            return Rejected(Reason.SIZE_LIMIT, f"{sums} sums of all frequencies, over {_MOST_SUMS}")
        return APPLICABLE

    def gain(self, phases: Phases) -> float:
        """The peak's share, counted by the direct formula, where vectors are filled."""
        return phases.gain(_REST) / phases.covered

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The share of the peak, times that of the time that arithmetic takes."""
        phases = self.cut(window(problem))
        filled = fill(phases.window.filters, VECTOR)
        products = problem.flops / (self.gain(phases) * filled)
        return self.first_layer_index(problem, target, products)

    def error_reach(self, problem: ConvProblem) -> int:
        """The taps of a piece."""
        phases = self.cut(window(problem))
        return (phases.taps[0] - 1) * max(phases.window.stride)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch for the parts, and one that adds them up."""
        shape = window(problem)
        phases = self.cut(shape)
        parts, share = _parts(phases, target, limit)
        many = has_many_registers(target)
        program = program_of(
            "cpu_first_phases_weights",
            replace(shape, filters=1),
            POINTS=phases.taps[0],
            IN_BLOCKS=phases.in_blocks,
            TILES=_TILES,
            ROWS=_rows(phases, many),
            VECTORS_AT_ONCE=(_MANY if many else _FEW)[2],
        )
        sums = Grid(program, "direct_cpu_first_phases_weights", parts)(
            *(
                Memory.X,
                Memory.Y,
                Memory.WORKSPACE,
                BufferArg(Memory.WORKSPACE, align(parts * _part_bytes(phases))),
            ),
            *(shape.images, shape.filters, *shape.size, *shape.out, *shape.padding),
            *(share, phases.pitch),
        )
        numbers = shape.channels * shape.taps
        groups = (-(-shape.filters // VECTOR), -(-numbers // VECTOR))
        add_up = Grid(program, "direct_cpu_first_phases_sum", groups)(
            *(Memory.WORKSPACE, Memory.W),
            *Epilogue.of(problem).arguments,
            *(shape.filters, parts),
        )
        workspace = _workspace(phases, target, parts)
        return Recipe(self.solver_id, (sums, add_up), workspace=workspace)


class CpuFirstBlocksWeights(CpuFirstPhasesWeights):
    """The same of stride 1: blocks of the filter instead of phases of the image."""

    prefix = "direct-cpu-first-blocks"
    version = 1
    domain = CpuFirstPhasesWeights.domain.without(Trait.STRIDE)
    cut = Blocks

    def judge_pieces(self, phases: Phases) -> Applicability:
        """Take filters of any size, cut into blocks for which there are transforms."""
        return APPLICABLE


def _rows(phases: Phases, many_registers: bool) -> int:
    """Numbers of a virtual pixel whose sums are in registers."""
    of_phases, of_blocks, _ = _MANY if many_registers else _FEW
    most = of_blocks if phases.in_blocks else of_phases
    return -(-phases.depth // -(-phases.depth // most))


def _parts(phases: Phases, target: Target, limit: Limit) -> tuple[int, int]:
    """Return how many parts there are, and the rows of tiles of each."""
    most = items_wanted(target)
    if phases.window.images * math.prod(phases.tiles) < most * _TILES_OF_PART:
        most = target.compute_units
    while limit is not None and most > 1 and _workspace(phases, target, most) > limit:
        most -= 1
    return even_parts(phases.window.images * phases.tiles[0], most)


def _sums(phases: Phases, many_registers: bool) -> int:
    """Sums of all frequencies, whole register tiles."""
    rows = _rows(phases, many_registers)
    return FREQUENCIES * -(-phases.depth // rows) * rows * phases.filters


def _part_bytes(phases: Phases) -> int:
    return 4 * phases.filters * phases.window.channels * phases.window.taps


def _workspace(phases: Phases, target: Target, parts: int) -> int:
    """Bytes of the parts; of each a transformed row, spectra of tiles of x and of y, and sums."""
    spectra = FREQUENCIES * (phases.spectrum(_TILES) + _TILES * BLOCK)
    sums = _sums(phases, has_many_registers(target))
    work = 4 * (phases.row_floats + spectra + sums)
    return align(parts * _part_bytes(phases)) + parts * work
