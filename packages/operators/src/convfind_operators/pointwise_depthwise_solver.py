"""`PointwiseDepthwiseSolver`: lines of the 1x1 convolution's result stay in a core's cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from convfind.device.target import Target
from convfind.kit.register_tile import has_many_registers
from convfind.problem.activation import Activation
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, Recipe, ScalarArg, Step, i32
from convfind_operators.element_type import ElementType
from convfind_operators.launching import VECTOR, has_vectors, kernel
from convfind_operators.pointwise_depthwise import PointwiseDepthwiseProblem
from convfind_operators.solver import OperatorSolver

#: Positions of the 1x1 convolution at a time, at least: few tiles are not whole.
_POSITIONS = 96
#: Floats of the lines that are kept: half of them are in a level-2 cache.
_MOST_FLOATS = 2**16
#: Positions of a register tile, and results of the depthwise filter at a time: of 32 registers of
#: 16 floats, and of 16 of 8.
_MANY_REGISTERS, _FEW_REGISTERS = (12, 8), (6, 4)
#: The most that kernels count as an int, in lines of vectors too.
_LARGEST = 2**26
#: Work-items a core at most, so that cores have as much to do.
_ITEMS_PER_CORE = 8


class PointwiseDepthwiseSolver(OperatorSolver):
    """A work-item has a vector of channels of some rows of an image."""

    family = PointwiseDepthwiseProblem

    def countable(self, problem: PointwiseDepthwiseProblem, target: Target) -> Applicability:
        """Take float32 channels-last on CPUs, where lines fit into the cache."""
        if not has_vectors(target):
            return Rejected(Reason.DEVICE_KIND, "CPUs only")
        if problem.dtype is not ElementType.FLOAT32:
            return Rejected(Reason.DTYPE, "float32 only")
        if not problem.channels_last or problem.strides:
            return Rejected(Reason.LAYOUT, "channels last, without gaps")
        if _macro(problem.inner) != _macro(problem.outer):
            return Rejected(Reason.EPILOGUE, "activations of one kind")
        images, channels, height, _ = problem.x
        if (size := max(channels, problem.filters, images * height)) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {size}")
        floats = _Lines.of(problem).floats
        if floats > _MOST_FLOATS:
            return Rejected(Reason.SIZE_LIMIT, f"lines of {floats} floats, over {_MOST_FLOATS}")
        return APPLICABLE

    def solution(
        self,
        problem: Any,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch that puts the weights in order, and one that computes."""
        if not problem.result.elements:
            return Recipe(self.solver_id, (), config=config)
        blocks = -(-problem.filters // VECTOR)
        packed = 4 * blocks * VECTOR * (problem.x[1] + problem.window.taps + 2)
        weights = ("w", "bias", "depthwise_w", "depthwise_bias")
        read: tuple[Argument, ...] = tuple(map(BufferArg, weights))
        pack = Launch(
            kernel(*_ENTRIES[0], target, _macros(problem, target)),
            (*read, BufferArg(Memory.PACKED), i32(problem.x[1]), i32(problem.filters)),
            (blocks,),
            (1,),
        )
        steps = self.steps(problem, target)
        return Recipe(self.solver_id, steps, prepare=(pack,), packed=packed, config=config)

    def steps(self, problem: PointwiseDepthwiseProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        images, channels, *size = problem.x
        out = problem.result.shape[2:]
        blocks, lines = -(-problem.filters // VECTOR), _Lines.of(problem)
        rows = _band(problem, images * blocks, target.compute_units)
        bands = -(-out[0] // rows)
        arguments: tuple[Argument, ...] = (
            *map(BufferArg, ("x", Memory.PACKED, "y")),
            *map(i32, (channels, problem.filters, *size, *out, *problem.padding)),
            *map(i32, (bands, rows, lines.at_once, lines.kept, lines.columns)),
            *_numbers(problem.inner),
            *_numbers(problem.outer),
        )
        spec = kernel(*_ENTRIES[1], target, _macros(problem, target))
        return (Launch(spec, arguments, (images * bands, blocks), (1, 1)),)


_ENTRIES = tuple(("pointwise_depthwise", f"pointwise_depthwise{tail}") for tail in ("_pack", ""))


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of the 1x1 convolution's result that a work-item keeps."""

    at_once: int  # that are computed at once
    kept: int
    columns: int  # padding included

    @classmethod
    def of(cls, problem: PointwiseDepthwiseProblem) -> _Lines:
        height, width = problem.x[2:]
        at_once = max(1, min(height, -(-_POSITIONS // max(1, width))))
        results = max(problem.result.shape[3], max(_MANY_REGISTERS[1], _FEW_REGISTERS[1]))
        read = (results - 1) * problem.stride[1] + problem.size[1]
        columns = max(width + problem.padding[1], read)
        return cls(at_once, at_once + problem.size[0] - 1, columns)

    @property
    def floats(self) -> int:
        """Floats of the lines, and of one of zeros."""
        return (self.kept + 1) * self.columns * VECTOR


def _macro(activation: Activation | None) -> str | None:
    return None if activation is None else activation.kind.macro


def _macros(problem: PointwiseDepthwiseProblem, target: Target) -> dict[str, int | str]:
    rows, columns = _MANY_REGISTERS if has_many_registers(target) else _FEW_REGISTERS
    height, width = problem.size
    macros: dict[str, int | str] = {
        "FILTER_H": height,
        "FILTER_W": width,
        "STRIDE_H": problem.stride[0],
        "STRIDE_W": problem.stride[1],
        "ROWS": rows,
        "COLUMNS": columns,
        "LINES_FLOATS": 1 << (_Lines.of(problem).floats - 1).bit_length(),
    }
    name = _macro(problem.inner)
    return macros if name is None else {**macros, "CF_ACTIVATION": name}


def _numbers(activation: Activation | None) -> tuple[ScalarArg, ...]:
    """Return the three numbers of an activation, or zeros."""
    numbers = () if activation is None else activation.numbers
    filled = (*numbers, *(0.0,) * (3 - len(numbers)))
    return tuple(ScalarArg(value, "float32") for value in filled)


def _band(problem: PointwiseDepthwiseProblem, parts: int, cores: int) -> int:
    """Return the rows of the result of a work-item, of which there are so many parts.

    Bands compute the lines between them twice; too few of them leave cores without work.
    """
    height = problem.result.shape[2]
    overlap = max(0, problem.size[0] - problem.stride[0])

    def cost(bands: int) -> float:
        rows = -(-height // bands)
        rounds = -(-parts * -(-height // rows) // cores)
        return rounds * (rows * problem.stride[0] + overlap)

    most = max(1, min(height, math.ceil(_ITEMS_PER_CORE * cores / parts)))
    return -(-height // min(range(1, most + 1), key=cost))
