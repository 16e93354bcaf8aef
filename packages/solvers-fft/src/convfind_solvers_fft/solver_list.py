"""The solvers of the family, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_fft.cpu import CpuSolver
from convfind_solvers_fft.cpu_dense import CpuDenseSolver
from convfind_solvers_fft.cpu_depthwise import CpuDepthwiseSolver
from convfind_solvers_fft.cpu_depthwise_weights import CpuDepthwiseWeightsSolver
from convfind_solvers_fft.cpu_weights import CpuWeightsSolver
from convfind_solvers_fft.gpu import GpuSolver
from convfind_solvers_fft.gpu_dense import GpuDenseSolver
from convfind_solvers_fft.gpu_depthwise import GpuDepthwiseSolver

_TO_TENSORS = (Direction.FORWARD, Direction.BACKWARD_DATA)


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    kinds = (
        (CpuDepthwiseSolver, "depthwise-cpu", _TO_TENSORS),
        (CpuDepthwiseWeightsSolver, "depthwise-cpu", (Direction.BACKWARD_WEIGHTS,)),
        (CpuDenseSolver, "cpu", _TO_TENSORS),
        (CpuWeightsSolver, "cpu", (Direction.BACKWARD_WEIGHTS,)),
    )
    for_cpus = [
        _solver(base, kind, direction, channels_last=last)
        for base, kind, directions in kinds
        for direction in directions
        for last in (False, True)
    ]
    return for_cpus + gpu_solvers()


def gpu_solvers() -> list[Solver]:
    """Return those for GPUs."""
    return [
        _solver(base, kind, direction, channels_last=False)
        for base, kind in ((GpuDepthwiseSolver, "depthwise-gpu"), (GpuDenseSolver, "gpu"))
        for direction in _TO_TENSORS
    ]


def _solver(
    base: type[CpuSolver | GpuSolver], kind: str, direction: Direction, *, channels_last: bool
) -> Solver:
    layout = "nhwc" if channels_last else "nchw"
    name = f"fft-{kind}-{layout}-{direction.short}"
    cls = type(
        name,
        (base,),
        {
            "solver_id": name,
            "direction": direction,
            "channels_last": channels_last,
            "__doc__": f"FFT convolution, {kind}, {layout}, {direction}.",
        },
    )
    solver: Solver = cls()
    return solver
