"""Implicit GEMM on GPUs: forward of int8, four channels to a word and an instruction."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Grid, Limit
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import (
    WORKSPACE_ALIGNMENT,
    BufferArg,
    Launch,
    Memory,
    Recipe,
    align,
    moved_to,
)
from convfind.types import DataType, Direction
from convfind_solvers_igemm.gpu.conv import ConvSolver
from convfind_solvers_igemm.gpu.geometry import GpuGeometry, gpu_geometry
from convfind_solvers_igemm.gpu.tiles import Tile
from convfind_solvers_igemm.programs import GPU

_WORD = 4
#: Words that a launch counts.
_MOST_WORDS = 2**31 - 2**16
_PACK_GROUP = 64
_PACK_SECONDS = 4e-6
#: The time of a word's products beside one of floats.
_SLOWER = 2.0


class DotSolver(ConvSolver):
    """y from x and w, both int8, where there is an instruction for it.

    Tensors that are not channels last, with whole words of channels, are packed beforehand.
    """

    domain = replace(ConvSolver.domain, dtypes=(DataType.INT8,), features=frozenset({"dot4"}))

    form = "dot4"
    direction = Direction.FORWARD

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the plain solver would, of words that a launch can count."""
        answer = super().applicability(problem, target)
        if answer and (words := max(_words(problem, name) for name in "xw")) > _MOST_WORDS:
            return Rejected(Reason.SIZE_LIMIT, f"{words} words of {_WORD} channels")
        return answer

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """The launches of the plain solver on words, and before them those that pack."""
        if _has_words(problem):
            return super().recipe(problem, target, config, limit)
        x_bytes, w_bytes = align(_WORD * _words(problem, "x")), _WORD * _words(problem, "w")
        if limit is not None:
            room = (limit - w_bytes) // WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT
            limit = max(room - x_bytes, 0)
        plain = super().recipe(problem, target, config, limit)
        places = {
            Memory.WORKSPACE: BufferArg(Memory.WORKSPACE, x_bytes),
            Memory.X: BufferArg(Memory.WORKSPACE),
            Memory.W: BufferArg(Memory.PACKED),
        }
        return replace(
            plain,
            steps=(_pack(problem, "x"), *moved_to(plain.steps, places)),
            prepare=(_pack(problem, "w"),),
            workspace=x_bytes + plain.workspace,
            packed=w_bytes,
        )

    def _geometry(self, problem: ConvProblem) -> GpuGeometry:
        shape = super()._geometry(problem) if _has_words(problem) else gpu_geometry(problem)
        return replace(shape, channels=-(-shape.channels // _WORD))

    def _elements(self, problem: ConvProblem, target: Target) -> dict[str, DefineValue]:
        return {"INTEGER": True, "WORDS": True, "CF_DP4A": target.has("nv-ptx")}

    def _has_all_registers(self, problem: ConvProblem, shape: GpuGeometry, tile: Tile) -> bool:
        # Words of four numbers take as few registers as floats.
        return tile.crowded

    def _best(self, problem: ConvProblem, target: Target) -> tuple[Tile, int, float]:
        tile, parts, seconds = super()._best(problem, target)
        packing = 0.0 if _has_words(problem) else _PACK_SECONDS
        return tile, parts, _SLOWER * seconds + packing


def _has_words(problem: ConvProblem) -> bool:
    """Return whether the tensors are words as they are."""
    return problem.x_layout.channels_last and problem.w_shape[1] % _WORD == 0


def _words(problem: ConvProblem, name: str) -> int:
    channels = problem.w_shape[1]
    return problem.elements(name) // channels * -(-channels // _WORD)


def _pack(problem: ConvProblem, name: str) -> Launch:
    """The launch that packs x or w."""
    spatial = problem.elements(name) // (problem.shape(name)[0] * problem.shape(name)[1])
    size, to = _words(problem, name), Memory.WORKSPACE if name == "x" else Memory.PACKED
    program = GPU.program("gpu_words", {})
    return Grid(program, "igemm_gpu_words", -(-size // _PACK_GROUP), _PACK_GROUP)(
        *(name, to, size, problem.w_shape[1], 1 if problem.x_layout.channels_last else spatial)
    )
