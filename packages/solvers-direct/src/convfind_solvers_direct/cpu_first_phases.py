"""First layers with strides on CPUs, by Winograd's algorithm over the phases of the image."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.kernel_spec import KernelSpec
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, align, f32, i32
from convfind.target import Target
from convfind.types import AccuracyClass, Algorithm, Direction
from convfind_solvers_direct.cpu_first import judge_first
from convfind_solvers_direct.cpu_solver import VECTOR, CpuSolver, fill, items_wanted, program_of
from convfind_solvers_direct.window import Window, window

#: Elements of a tile along an axis, and its frequencies.
_SIDE = 6
_FREQUENCIES = _SIDE * _SIDE
#: Taps of a phase along an axis that the transforms are for.
_POINTS = (3, 4)
#: Tiles and filters of a register tile, and rows of tiles whose columns are transformed at a time.
_TILES, _FILTERS, _BAND = 14, 2 * VECTOR, 3
#: The share of the peak that products reach, and what the rest of a result costs, in products.
_PRODUCT_SHARE, _REST = 0.8, 90.0


class CpuFirstPhases(CpuSolver):
    """Forward with channels last: the phases of a stride are channels of a layer of stride 1.

    Winograd's F(3x3, 4x4) or F(4x4, 3x3) then saves most of the products (Lavin and Gray, "Fast
    algorithms for convolutional neural networks", 2016): 7x7 filters of stride 2 are four phases of
    4x4 taps, 11x11 ones of stride 4 sixteen of 3x3.
    """

    solver_id = "direct-cpu-first-phases-nhwc-fwd"
    direction = Direction.FORWARD
    algorithm = Algorithm.WINOGRAD

    def judge(self, problem: ConvProblem) -> Applicability:
        """Take packed tensors of few channels, strided, where enough products are saved."""
        if not (answer := judge_first(problem, True)):
            return answer
        if problem.accuracy is AccuracyClass.STRICT:
            return Rejected(
                Reason.ACCURACY, "transforms, and accuracy=strict wants the direct formula"
            )
        shape = window(problem)
        if max(shape.stride) == 1 or shape.channels * shape.stride[1] > VECTOR:
            return Rejected(
                Reason.STRIDE, f"above 1, and times the channels at most {VECTOR} along a row"
            )
        height, width = _taps(shape)
        if height != width or height not in _POINTS:
            return Rejected(
                Reason.FILTER_SIZE, f"3 or 4 taps of a phase along both axes, not {height}, {width}"
            )
        if _gain(shape) < _PRODUCT_SHARE:
            return Rejected(Reason.FILTER_SIZE, "transforms cost more than the products they save")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The share of the peak, counted by the direct formula."""
        shape = window(problem)
        return max(_gain(shape) * fill(shape.filters, _FILTERS), 0.02)

    def error_bound(self, problem: ConvProblem) -> float:
        """Above what the points make of a sum: 2.8 and 3.9 times the error of plain summation.

        Where one product exceeds all others six times as much of its rounding may pass.
        """
        return 6.0

    def error_reach(self, problem: ConvProblem) -> int:
        """A tile, less one."""
        return _SIDE - 1

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the transformed weights, and of what the work-items transform."""
        shape = window(problem)
        items, _ = _items(shape, target)
        return align(shape.images * items * _item_bytes(shape)) + _packed_bytes(shape)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch that transforms the weights, and one that computes."""
        shape = window(problem)
        program = program_of(
            "cpu_first_phases", replace(shape, filters=1), POINTS=_taps(shape)[0], TILES=_TILES
        )
        pack = Launch(
            KernelSpec(program, "direct_cpu_first_phases_pack"),
            (BufferArg(Memory.W), BufferArg(Memory.PACKED), i32(shape.filters)),
            (-(-shape.filters // _FILTERS) * _FILTERS // VECTOR,),
            (1,),
        )
        items, share = _items(shape, target)
        compute = Launch(
            KernelSpec(program, "direct_cpu_first_phases"),
            (
                BufferArg(Memory.X),
                BufferArg(Memory.PACKED),
                BufferArg(Memory.Y),
                BufferArg(Memory.WORKSPACE),
                f32(problem.alpha),
                f32(problem.beta),
                *map(i32, (shape.filters, *shape.size, *shape.out, *shape.padding)),
                i32(share),
                i32(_BAND),
                i32(_pitch(shape)),
            ),
            (shape.images, items),
            (1, 1),
        )
        return ConvSolution(
            self.solver_id,
            (compute,),
            prepare=(pack,),
            packed=_packed_bytes(shape),
            workspace=shape.images * items * _item_bytes(shape),
        )


def _taps(shape: Window) -> tuple[int, int]:
    """Taps of a phase along both axes."""
    height, width = (-(-taps // step) for taps, step in zip(shape.taps, shape.stride, strict=True))
    return height, width


def _outputs(shape: Window) -> int:
    """Results of a tile along an axis."""
    return _SIDE + 1 - _taps(shape)[0]


def _gain(shape: Window) -> float:
    """Products of the direct formula to the time of a result in products."""
    products = _FREQUENCIES * _depth(shape) / _outputs(shape) ** 2
    return shape.channels * math.prod(shape.taps) / (products / _PRODUCT_SHARE + _REST)


def _depth(shape: Window) -> int:
    """Channels of the convolution of stride 1."""
    return shape.channels * math.prod(shape.stride)


def _items(shape: Window, target: Target) -> tuple[int, int]:
    """Work-items of an image, and the bands of each."""
    bands = -(-shape.out[0] // (_BAND * _outputs(shape)))
    items = min(bands, -(-items_wanted(target) // shape.images))
    share = -(-bands // items)
    return -(-bands // share), share


def _pitch(shape: Window) -> int:
    """Floats of a transformed row: what tiles and vectors read, zeros around it included."""
    outputs, line = _outputs(shape), shape.channels * shape.stride[1]
    read = ((-(-shape.out[1] // outputs) - 1) * outputs + _SIDE) * line
    written = (shape.padding[1] + shape.size[1]) * shape.channels
    return (max(read, written) // VECTOR + 2) * VECTOR


def _item_bytes(shape: Window) -> int:
    """Transformed rows, spectra of tiles, and sums."""
    rows = _BAND * _SIDE * shape.stride[0] * _pitch(shape)
    return 4 * (rows + _FREQUENCIES * (_TILES * _depth(shape) + VECTOR + _TILES * _FILTERS))


def _packed_bytes(shape: Window) -> int:
    filters = -(-shape.filters // _FILTERS) * _FILTERS
    return 4 * filters * _FREQUENCIES * _depth(shape)
