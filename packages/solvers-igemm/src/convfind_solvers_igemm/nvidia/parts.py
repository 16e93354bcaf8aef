"""Sums in parts for NVIDIA's matrix units, where tiles alone do not fill the device."""

from __future__ import annotations

from collections.abc import Iterable

from convfind.device.target import Target
from convfind.kit.blocks import (
    Epilogue,
    Grid,
    channel_of_place,
    part_bytes,
    parts_of_result,
    round_up,
)
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem
from convfind.solver import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import WORKSPACE_ALIGNMENT, BufferArg, Launch, Memory, i64
from convfind.solver.search_space import Parameter
from convfind_solvers_igemm.gpu.geometry import GpuGeometry
from convfind_solvers_igemm.nvidia.form import FLAT, FLAT_PIECES, ROW_BYTES, MatrixProduct, gather
from convfind_solvers_igemm.nvidia.tiles import MatrixTile

#: Where so many of these tiles are there for each unit, sums are left whole: no workspace.
_ORDINARY, _ENOUGH = MatrixTile(128, 128, 2), 2
#: Sums are not split into parts shorter than this.
_SHORTEST = 128
#: Work-groups a unit that tiles and parts make, and rounds of all that it has places for.
_ROUNDS = (1, 2, 3)
#: Numbers of parts worth trying on any device.
_POWERS = (2, 4, 8, 16, 32, 64)
_SUM_GROUP = 256


def sum_length(problem: ConvProblem, shape: GpuGeometry) -> float:
    """Products of a result's sum, with what fills steps up, on average over phases."""
    per_row, product = ROW_BYTES // problem.dtype.size, MatrixProduct(shape)
    if gather(problem, shape) in (FLAT, FLAT_PIECES):
        return float(round_up(shape.channels * shape.taps, per_row))
    taps = product.taps / (1 if product.fused else shape.phases)
    return round_up(shape.channels, per_row) * taps


def most_parts(problem: ConvProblem, shape: GpuGeometry, target: Target) -> int:
    """Return the most parts that a sum should be split into; 1: it is left whole."""
    if gather(problem, shape) in (FLAT, FLAT_PIECES):
        return 1
    return most_parts_of(sum_length(problem, shape), shape, target)


def most_parts_of(length: float, shape: GpuGeometry, target: Target) -> int:
    """Return the most parts of a sum of a length, whichever way operands are fetched."""
    if MatrixProduct(shape).tiles(_ORDINARY) >= _ENOUGH * target.compute_units:
        return 1
    return max(1, int(length) // _SHORTEST)


def parts_filling(tiles: int, units: int, places: int, most: int) -> list[int]:
    """Return numbers of parts, up to ``most``, that keep so many units busy evenly, and 1.

    ``places``: work-groups that a unit holds at a time.
    """
    if most == 1:
        return [1]
    wanted = {n * each * units // tiles for n in _ROUNDS for each in (1, places)}
    return sorted({min(max(parts, 1), most) for parts in wanted} | {1})


def parts_parameter(parts: Iterable[int], most: int) -> tuple[Parameter, ...]:
    """Return the parameter, of sums that may be split, with these numbers and powers of two."""
    if most == 1:
        return ()
    found = {1, *parts, *(n for n in _POWERS if n <= most)}
    meaning = "parts of the sum, computed side by side"
    return (Parameter("parts", tuple(sorted(found)), meaning, formerly=1),)


def parts_of(problem: ConvProblem, config: Config, limit: Limit, before: int, packed: int) -> int:
    """Return the parts of a config, or as many as fit a workspace limit.

    ``before`` and ``packed``: bytes of the workspace in front of the parts and behind them.
    """
    parts = config.integer("parts") if "parts" in config else 1
    if parts == 1 or limit is None:
        return parts
    room = (limit - packed) // WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT - before
    return parts_of_result(problem, parts, room)


def moved_bytes(problem: ConvProblem, parts: int) -> int:
    """Bytes that parts write, and that their sum reads and writes."""
    return (2 * parts + 1) * part_bytes(problem) if parts > 1 else 0


def add_parts(problem: ConvProblem, program: Program, offset: int, parts: int) -> Launch:
    """Return the launch that adds up the parts, which lie in the workspace from ``offset`` on."""
    size = problem.elements(problem.direction.writes)
    return Grid(program, "igemm_nvidia_add_parts", -(-size // _SUM_GROUP), _SUM_GROUP)(
        *(BufferArg(Memory.WORKSPACE, offset), problem.direction.writes),
        *Epilogue.of(problem).arguments,
        *(i64(size), parts),
        *channel_of_place(problem),
    )
