"""Implicit GEMM on CPUs: windows gathered into the level-1 cache, weights packed into panels."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.defines import make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32
from convfind.solver import Solver
from convfind.target import DeviceKind, Target
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_igemm.blocking import Product, cut
from convfind_solvers_igemm.geometry import Geometry, geometry

#: The kernels count positions, channels and taps in 32 bits.
_LARGEST = 2**30
_MOST_GROUPS = 2**15
_DEPTH = 256
_VECTOR = 16
#: Floats of weights that stay in the level-2 cache beside everything else.
_CACHED_WEIGHTS = 131072
#: The register tile that fills the registers: 32 of 16 floats, 16 of 8; else 32 of 4.
_REGISTER_TILES = {"x86-64-avx512": (12, 2), "x86-64-avx2": (6, 1)}
_OTHER_REGISTER_TILE = (5, 1)
#: FLOP that a CPU core does while it moves a byte, and its share of the peak in a long sum.
_BALANCE = 15
_BEST_SHARE = 0.9
#: Channels first, a product that gathers nothing leaves less to win over a plain GEMM.
_PLAIN_SHARE = 0.72


class CpuSolver(Solver):
    """A float32 convolution in one direction and one family of layouts; one program for all."""

    direction: ClassVar[Direction]
    channels_last: ClassVar[bool]
    #: Weights are packed before the run, once where they are constant; else by each work-item.
    packs_ahead: ClassVar[bool] = True
    algorithm = Algorithm.IMPLICIT_GEMM
    is_dynamic = True
    backends = ("opencl",)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take packed float32 tensors in the solver's layout, on CPUs."""
        if target.kind is not DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for CPUs")
        if problem.direction is not self.direction:
            return Rejected(Reason.DIRECTION, f"{problem.direction} is not {self.direction}")
        if problem.dtype is not DataType.FLOAT32:
            return Rejected(Reason.DTYPE, "is float32 only")
        if not problem.layouts_agree or problem.x_layout.channels_last is not self.channels_last:
            order = "last" if self.channels_last else "first"
            return Rejected(Reason.LAYOUT, f"x, w and y must all be channels {order}")
        if not problem.is_packed:
            return Rejected(Reason.NON_PACKED)
        if self.direction is Direction.BACKWARD_DATA and any(step > 1 for step in problem.stride):
            return Rejected(Reason.STRIDE, "the data gradient is for stride 1")
        if problem.groups > _MOST_GROUPS:
            return Rejected(Reason.GROUPS, f"at most {_MOST_GROUPS}")
        if _may_be_large(problem) and (largest := geometry(problem).largest) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {largest}")
        return APPLICABLE

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the packed weights."""
        return self._packed_bytes(geometry(problem), target) if self.packs_ahead else 0

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The share of time that arithmetic takes, times the part of the tiles that is filled."""
        shape = geometry(problem)
        positions, filters = (4, _VECTOR) if self.channels_last else (_VECTOR, 4)
        fill = _fill(shape.positions, positions) * _fill(shape.filters, filters)
        moved = problem.traffic + (2 * problem.nbytes("w") if self.packs_ahead else 0)
        busy = problem.flops / (problem.flops + _BALANCE * moved)
        plain = shape.taps == 1 and not self.channels_last
        best = _PLAIN_SHARE if plain else _BEST_SHARE
        return max(best * fill * busy, 0.02)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch that packs the weights, and one that computes."""
        shape = geometry(problem)
        rows, vectors = _tile(target)
        program = Program(
            KernelSource("convfind_solvers_igemm", f"kernels/{self._kernel}.cl"),
            KernelLanguage.OPENCL_C,
            make_defines(MR=rows, VECTORS=vectors, DEPTH=_DEPTH, PACKED=self.packs_ahead),
        )
        width, block = self._panel_width(target), self._block(shape)
        panels = -(-shape.filters // width)
        pack = Launch(
            KernelSpec(program, "igemm_cpu_pack"),
            (
                BufferArg(Memory.W),
                BufferArg(Memory.PACKED),
                *map(i32, (shape.filters, shape.channels, shape.taps, block, width)),
                *shape.weight_arguments,
            ),
            (panels, shape.groups, 1),
            (1, 1, 1),
        )
        positions, filters = self._units(target)
        pieces = cut(
            Product(
                shape.positions,
                shape.filters,
                shape.groups,
                positions,
                filters,
                max(1, _CACHED_WEIGHTS // _DEPTH // filters) * filters,
            ),
            target.compute_units,
        )
        compute = Launch(
            KernelSpec(program, f"igemm_{self._kernel}"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.PACKED if self.packs_ahead else Memory.W),
                BufferArg(shape.result),
                *shape.arguments,
                f32(problem.alpha),
                f32(problem.beta),
                *map(i32, self._cut_arguments(shape, pieces.positions, pieces.filters)),
                *shape.weight_arguments,
            ),
            (
                -(-shape.positions // pieces.positions),
                -(-shape.filters // pieces.filters),
                shape.groups,
            ),
            (1, 1, 1),
        )
        if not self.packs_ahead:
            return ConvSolution(self.solver_id, (compute,))
        packed = self._packed_bytes(shape, target)
        return ConvSolution(self.solver_id, (compute,), prepare=(pack,), packed=packed)

    def _packed_bytes(self, shape: Geometry, target: Target) -> int:
        width = self._panel_width(target)
        return shape.groups * -(-shape.filters // width) * width * shape.reduction * 4

    @property
    @abstractmethod
    def _kernel(self) -> str:
        """Name of the kernel file; the kernel's own starts with igemm."""

    @abstractmethod
    def _panel_width(self, target: Target) -> int:
        """Filters of a panel of weights."""

    @abstractmethod
    def _units(self, target: Target) -> tuple[int, int]:
        """Positions and filters that a register tile takes."""

    @abstractmethod
    def _block(self, shape: Geometry) -> int:
        """Channels of a block in packed weights."""

    @abstractmethod
    def _cut_arguments(self, shape: Geometry, positions: int, filters: int) -> tuple[int, ...]:
        """The kernel's last arguments."""


class ChannelsFirst(CpuSolver):
    """Vectors along positions, panels of MR filters."""

    channels_last = False
    _kernel = "cpu_nchw"

    def _panel_width(self, target: Target) -> int:
        return _tile(target)[0]

    def _units(self, target: Target) -> tuple[int, int]:
        rows, vectors = _tile(target)
        return vectors * _VECTOR, rows

    def _block(self, shape: Geometry) -> int:
        return min(shape.channels, max(1, _DEPTH // shape.taps))

    def _cut_arguments(self, shape: Geometry, positions: int, filters: int) -> tuple[int, ...]:
        return filters, positions, self._block(shape)


class ChannelsLast(CpuSolver):
    """Vectors along filters, panels of one or two vectors of them."""

    channels_last = True
    _kernel = "cpu_nhwc"

    def _panel_width(self, target: Target) -> int:
        return _tile(target)[1] * _VECTOR

    def _units(self, target: Target) -> tuple[int, int]:
        rows, vectors = _tile(target)
        return rows, vectors * _VECTOR

    def _block(self, shape: Geometry) -> int:
        return shape.channels

    def _cut_arguments(self, shape: Geometry, positions: int, filters: int) -> tuple[int, ...]:
        is_joined = shape.groups == 1 and shape.dilation[2] == 1
        return positions, filters, shape.window[2] if is_joined else 1


class ChannelsFirstForward(ChannelsFirst):
    """y from x and w, channels first."""

    solver_id = "igemm-cpu-nchw-fwd"
    direction = Direction.FORWARD


class ChannelsLastForward(ChannelsLast):
    """y from x and w, channels last."""

    solver_id = "igemm-cpu-nhwc-fwd"
    direction = Direction.FORWARD


class ChannelsLastForwardInline(ChannelsLast):
    """y from x and w, channels last, without workspace."""

    solver_id = "igemm-cpu-nhwc-fwd-inline"
    direction = Direction.FORWARD
    packs_ahead = False


class ChannelsFirstBackwardData(ChannelsFirst):
    """x from y and w, channels first, stride 1."""

    solver_id = "igemm-cpu-nchw-bwd-data"
    direction = Direction.BACKWARD_DATA


class ChannelsLastBackwardData(ChannelsLast):
    """x from y and w, channels last, stride 1."""

    solver_id = "igemm-cpu-nhwc-bwd-data"
    direction = Direction.BACKWARD_DATA


class ChannelsLastBackwardDataInline(ChannelsLast):
    """x from y and w, channels last, stride 1, without workspace."""

    solver_id = "igemm-cpu-nhwc-bwd-data-inline"
    direction = Direction.BACKWARD_DATA
    packs_ahead = False


def _tile(target: Target) -> tuple[int, int]:
    """Rows and vectors of the register tile."""
    return _REGISTER_TILES.get(target.arch, _OTHER_REGISTER_TILE)


def _may_be_large(problem: ConvProblem) -> bool:
    """A bound that is quick to compute, and true of hardly any problem."""
    reach = max(problem.padding) + max(problem.padding_end)
    reach += max(problem.dilation) * max(problem.filter)
    channels = max(problem.x_shape[1], problem.w_shape[0])
    return problem.traffic + 4 * channels * reach > _LARGEST


def _fill(size: int, unit: int) -> float:
    """Share of whole units that a size fills."""
    return size / (-(-size // unit) * unit)
