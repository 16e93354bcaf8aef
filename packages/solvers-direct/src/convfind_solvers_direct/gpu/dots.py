"""Images of one pixel on GPUs, forward: linear layers of a few rows, squeeze-and-excitation."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import (
    Epilogue,
    Grid,
    RecipeSolver,
    ceil_div,
    memory_seconds,
    peak_seconds,
)
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_direct.gpu.conv import GpuSolver
from convfind_solvers_direct.programs import GPU

#: Items of a work-group, and images and filters of a team at most.
_ITEMS, _MOST_ROWS, _MOST_COLUMNS = 64, 4, 4
#: Loads of an item from which on more items share a sum.
_LOADS = 2
#: Work-items are counted in 32 bits; with more images the product is a large one.
_MOST_COUNTED, _MOST_IMAGES = 2**26, 256
#: The shares of the peak that sums reach, of the bandwidth of memory, and of it that caches have.
_ARITHMETIC_SHARE, _BANDWIDTH_SHARE, _CACHES_SHARE = 0.25, 0.85, 1.2
#: The least index: above that of matrix products, whose tiles are nearly empty here.
_LEAST = 0.03


class GpuDots(RecipeSolver):
    """A dot product for every result, by teams of items."""

    solver_id = "direct-gpu-dots-fwd"
    algorithm = Algorithm.DIRECT
    is_dynamic = False  # how many items share a sum follows the sizes
    backends: tuple[str, ...] = GpuSolver.backends
    domain = GpuSolver.domain.without(Trait.GROUPS, Trait.FILTER, Trait.PADDING).oriented(
        Direction.FORWARD
    )

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few images of one pixel each."""
        batch, channels, *spatial = problem.x_shape
        if max(spatial) > 1:
            return Rejected(Reason.SIZE_LIMIT, "is for images of one pixel")
        if batch > _MOST_IMAGES:
            return Rejected(Reason.SIZE_LIMIT, f"at most {_MOST_IMAGES} images, not {batch}")
        if (largest := max(batch * problem.w_shape[0], channels)) > _MOST_COUNTED:
            detail = f"at most {_MOST_COUNTED} results and channels, not {largest}"
            return Rejected(Reason.SIZE_LIMIT, detail)
        if target.max_work_group < _ITEMS:
            return Rejected(Reason.WORK_GROUP, f"needs {_ITEMS} work-items")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of all that teams load, or of the sums where these take longer."""
        rows, columns = _block(problem, target)
        batch, filters, channels = problem.x_shape[0], problem.w_shape[0], problem.x_shape[1]
        teams = ceil_div(batch, rows) * ceil_div(filters, columns)
        loaded = teams * (rows + columns) * channels * problem.dtype.size
        peak = peak_seconds(problem.flops, target)
        seconds = max(
            memory_seconds(problem.traffic, target, _BANDWIDTH_SHARE),
            memory_seconds(loaded, target, _CACHES_SHARE),
            peak / _ARITHMETIC_SHARE,
        )
        return max(peak / seconds, _LEAST)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch, no workspace."""
        (batch, channels), filters = problem.x_shape[:2], problem.w_shape[0]
        rows, columns = _block(problem, target)
        together = _together(problem)
        team = 1
        while team < _ITEMS and _LOADS * team * together < channels:
            team *= 2
        epilogue = Epilogue.of(problem)
        program = GPU.program(
            "gpu_dots",
            epilogue.defines,
            DTYPE=problem.dtype.upper(),
            ITEMS=_ITEMS,
            TEAM=team,
            ROWS=rows,
            COLUMNS=columns,
            TOGETHER=together,
        )
        teams = ceil_div(batch, rows) * ceil_div(filters, columns)
        launch = Grid(program, "direct_gpu_dots", ceil_div(teams, _ITEMS // team), _ITEMS)(
            *(Memory.X, Memory.W, Memory.Y), *epilogue.arguments, *(batch, channels, filters)
        )
        return Recipe(self.solver_id, (launch,))


def _block(problem: ConvProblem, target: Target) -> tuple[int, int]:
    """Return images and filters of a team: as many as leave work for all units, images first."""
    batch, filters = problem.x_shape[0], problem.w_shape[0]
    rows, columns = _MOST_ROWS, _MOST_COLUMNS
    while rows > 1 and rows >= 2 * batch:
        rows //= 2
    while columns > 1 and ceil_div(batch, rows) * ceil_div(filters, columns) < target.compute_units:
        columns //= 2
    return rows, columns


def _together(problem: ConvProblem) -> int:
    """Return the channels that one load has: 16 bytes of them, or what divides all."""
    most = 4 if problem.dtype is DataType.FLOAT32 else 8
    return next(count for count in (most, 4, 2, 1) if not problem.x_shape[1] % count)
