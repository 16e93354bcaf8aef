"""``example-pointwise-fwd``: 1x1 convolution to few output channels on CPU devices."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.kit.blocks import Grid, Kernels
from convfind.problem import ConvProblem, Trait
from convfind.solver import (
    APPLICABLE,
    CPUS,
    Applicability,
    Config,
    Domain,
    Reason,
    Rejected,
    TunableSolver,
)
from convfind.solver.kernel_spec import KernelLanguage
from convfind.solver.recipe import Memory, Recipe
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import Algorithm, DataType, Direction

#: Positions in one vector of the kernel.
VECTOR = 16
#: With more output channels a general GEMM fills its tiles, and is as fast, or faster.
MOST_CHANNELS = 4
#: Fewer positions are done before the launch is: nothing to win.
FEWEST_POSITIONS = 8 * VECTOR

_KERNELS = Kernels("convfind_example_solver", KernelLanguage.OPENCL_C)
_TILES = (1, 2, 3, 4)
_VECTORS = (1, 2, 4, 8, 16)


class PointwiseForward(TunableSolver):
    """Streams images past a few sums; a general GEMM copies them and computes a dozen rows."""

    solver_id = "example-pointwise-fwd"
    algorithm = Algorithm.DIRECT
    version = 1
    is_dynamic = True  # the sizes of batch, channels and images are kernel arguments
    backends = ("opencl",)
    domain = Domain(
        directions=(Direction.FORWARD,),
        kinds=CPUS,
        dtypes=(DataType.FLOAT32,),
        channels_last=False,
        ranks=(2,),
        traits=frozenset({Trait.DETERMINISTIC, Trait.STRICT}),
    )

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few output channels, and images that are worth a launch."""
        if problem.w_shape[0] > MOST_CHANNELS:
            return Rejected(Reason.CHANNELS, f"more than {MOST_CHANNELS} output channels")
        positions = math.prod(problem.x_shape[2:])
        if positions < FEWEST_POSITIONS:
            return Rejected(Reason.SIZE_LIMIT, f"{positions} positions in an image")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Above a GEMM, most of whose rows are empty here."""
        return 0.5

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """How much of the result is kept in registers, and how much work an item gets."""
        out_channels = problem.w_shape[0]
        positions = math.prod(problem.x_shape[2:])
        return SearchSpace(
            parameters=(
                Parameter("tile_k", _TILES, "output channels in registers"),
                Parameter("vectors", _VECTORS, "vectors of positions in registers"),
                Parameter("chunk", (4, 8, 16), "tiles of positions for each work-item"),
            ),
            constraints=(
                Constraint(
                    "tile_k fits",
                    lambda config: config.integer("tile_k") <= out_channels,
                    f"there are {out_channels} output channels",
                ),
                Constraint(
                    "registers suffice",
                    lambda config: config.integer("tile_k") * config.integer("vectors") <= 24,
                    "32 vector registers hold sums, inputs and a weight",
                ),
                Constraint(
                    "vectors fit",
                    lambda config: config.integer("vectors") * VECTOR <= positions,
                    f"an image has {positions} positions",
                ),
            ),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """All output channels at once, and as long a run of positions as the registers hold."""
        tile = problem.w_shape[0]
        positions = math.prod(problem.x_shape[2:])
        vectors = max(v for v in _VECTORS if v * tile <= 24 and v * VECTOR <= positions)
        return Config(tile_k=tile, vectors=vectors, chunk=4)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch: axis 0 over chunks of an image, axis 1 over the batch."""
        config = config if config is not None else self.default_config(problem, target)
        out_channels, channels = problem.w_shape[:2]
        positions = math.prod(problem.x_shape[2:])
        program = _KERNELS.program("pointwise_fwd", config.defines)
        chunk = config.integer("chunk") * config.integer("vectors") * VECTOR
        work_groups = (-(-positions // chunk), problem.x_shape[0])
        launch = Grid(program, "example_pointwise_fwd", work_groups)(
            Memory.X, Memory.W, Memory.Y, channels, out_channels, positions
        )
        return Recipe(self.solver_id, (launch,), config=config)
