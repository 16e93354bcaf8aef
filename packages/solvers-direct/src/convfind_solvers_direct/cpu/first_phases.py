"""First layers with strides on CPUs, by Winograd's algorithm over the phases of the image."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, even_parts, has_many_registers
from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Direction
from convfind_solvers_direct.cpu.phases import BLOCK, FREQUENCIES, SIDE, Phases
from convfind_solvers_direct.cpu.phases_solver import PhasesSolver
from convfind_solvers_direct.cpu.solver import VECTOR, items_wanted, program_of
from convfind_solvers_direct.window import window

#: Rows of tiles whose columns are transformed at a time.
_BAND = 3
#: Tiles at a time, and of these tiles and vectors of filters of a register tile, of 32 registers of
#: 16 floats and of 16 of 8.
_MANY, _FEW = (14, 14, 2), (12, 6, 1)


class CpuFirstPhases(PhasesSolver):
    """Forward with channels last: a layer of stride 1 over the phases of the image."""

    prefix = "direct-cpu-first-phases"
    direction = Direction.FORWARD

    def error_reach(self, problem: ConvProblem) -> int:
        """A tile, less one."""
        return SIDE - 1

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch that transforms the weights, and one that computes."""
        shape = window(problem)
        phases = Phases(shape)
        tiles, tiles_at_once, vectors = _tile(target)
        epilogue = Epilogue.of(problem)
        program = program_of(
            "cpu_first_phases",
            replace(shape, filters=1),
            POINTS=phases.taps[0],
            TILES=tiles,
            TILES_AT_ONCE=tiles_at_once,
            VECTORS_AT_ONCE=vectors,
            **epilogue.defines,
        )
        pack = Grid(program, "direct_cpu_first_phases_pack", phases.filters // VECTOR)(
            *(Memory.W, Memory.PACKED, shape.filters)
        )
        items, share = _items(phases, target)
        compute = Grid(program, "direct_cpu_first_phases", (shape.images, items))(
            *(Memory.X, Memory.PACKED, Memory.Y, Memory.WORKSPACE),
            *epilogue.arguments,
            *(shape.filters, *shape.size, *shape.out, *shape.padding),
            *(share, _BAND, phases.pitch),
        )
        return Recipe(
            self.solver_id,
            (compute,),
            prepare=(pack,),
            packed=4 * phases.filters * FREQUENCIES * phases.depth,
            workspace=_work_bytes(phases, target, items),
        )


def _items(phases: Phases, target: Target) -> tuple[int, int]:
    """Work-items of an image, and the bands of each."""
    bands = -(-phases.tiles[0] // _BAND)
    return even_parts(bands, -(-items_wanted(target) // phases.window.images))


def _tile(target: Target) -> tuple[int, int, int]:
    return _MANY if has_many_registers(target) else _FEW


def _work_bytes(phases: Phases, target: Target, items: int) -> int:
    """Transformed rows, spectra of tiles, and sums, of all images' work-items."""
    tiles, _, _ = _tile(target)
    spectra = FREQUENCIES * (tiles * phases.depth + VECTOR + tiles * BLOCK)
    return 4 * phases.window.images * items * (_BAND * phases.row_floats + spectra)
