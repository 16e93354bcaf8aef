"""The weight gradient on NVIDIA's matrix units (``mma.sync``), channels last."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import (
    Epilogue,
    Grid,
    Limit,
    ProductTile,
    memory_seconds,
    parts_in_rounds,
    parts_within,
    product_index,
)
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Memory, Recipe
from convfind.solver.search_space import Parameter, SearchSpace
from convfind.types import DataType, Direction
from convfind_solvers_igemm.gpu.geometry import GpuGeometry
from convfind_solvers_igemm.gpu.sized import SizedVariant
from convfind_solvers_igemm.nvidia.fold import Folding
from convfind_solvers_igemm.nvidia.form import DOMAIN
from convfind_solvers_igemm.programs import GPU

_OLDEST = 80  # mma.sync with TF32 and bfloat16, cp.async
_PIECE_BYTES = 16
_DEPTH = 32
#: From this length on, the error of split floats is below ordinary summation error.
_SHORTEST = 256
#: Sums are not split into parts shorter than this.
_SHORTEST_PART = 256
#: Local memory that NVIDIA's compiler grants from sm_80 on.
_LOCAL_MEMORY = 160 * 1024
_BESIDE = 4096
_POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MOST_PARTS = 4096
_MOST_PIECES = 2**31 - 2**16
#: A further launch, and the end of the one before.
_LAUNCH_SECONDS = 5e-6
#: Products along the sum that starting and storing a tile are worth.
_AROUND = 256
_BANDWIDTH_SHARE = 0.825
#: Tile of filters and columns: GFLOP/s of a unit of an H200 for split floats, TF32, and types of 16
#: bits; and work-groups that a unit holds.
_RATES = {
    ProductTile(128, 128): (465, 790, 1300, 1),
    ProductTile(64, 128): (468, 780, 1290, 2),
    ProductTile(128, 64): (468, 785, 1270, 2),
    ProductTile(64, 64): (445, 715, 950, 4),
}


class MatrixWeightsSolver(SizedVariant):
    """w from x and y, channels last."""

    prefix = "igemm-nvidia"
    direction = Direction.BACKWARD_WEIGHTS
    channels_last = True
    version = 2
    backends = ("opencl", "cuda")
    domain = DOMAIN

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take filters of whole pieces, and channels, too, where there are groups, since sm_80."""
        if target.compute_capability < _OLDEST:
            return Rejected(Reason.ARCHITECTURE, f"is for sm_{_OLDEST} on, not {target.arch}")
        folding, piece = self._folding(problem), _PIECE_BYTES // problem.dtype.size
        shape = folding.shape
        if shape.channels % piece or shape.filters % piece:
            return Rejected(Reason.CHANNELS, f"{piece} channels are read at a time")
        if _is_split(problem) and problem.reduction < _SHORTEST:
            detail = f"sums of {problem.reduction} products, fewer than {_SHORTEST}"
            return Rejected(Reason.ACCURACY, detail)
        if (size := shape.too_large or folding.plain.too_large) is not None:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {size}")
        if folding.pieces > _MOST_PIECES:
            return Rejected(Reason.SIZE_LIMIT, f"{folding.pieces} pieces of x")
        return APPLICABLE

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit local memory, and numbers of parts."""
        size, shape = problem.dtype.size, self._folding(problem).shape
        found = set(_POWERS)
        for tile in _RATES:
            found.update(_filling(shape, tile, target.compute_units, _MOST_PARTS))
        return SearchSpace(
            (
                Parameter("tile_m", (64, 128), "filters of a work-group"),
                Parameter("tile_n", (64, 128), "columns of a work-group"),
                Parameter("stages", (2, 3, 4, 5), "tiles in local memory or on their way there"),
                Parameter("parts", tuple(sorted(found)), "parts of the sum, side by side"),
            ),
            local_memory=lambda c: (
                c.integer("stages") * (c.integer("tile_m") + c.integer("tile_n")) * _DEPTH * size
                + _BESIDE
            ),
            local_memory_limit=_LOCAL_MEMORY,
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The measured tile, and the number of parts, that are expected to be quickest."""
        tile, parts, _ = _best(self._folding(problem), target)
        return Config(tile.values, stages=3, parts=parts)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of the best tile, or of memory where that is slower."""
        seconds = _best(self._folding(problem), target)[2]
        return product_index(problem, target, seconds, _BANDWIDTH_SHARE)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch; before it one that folds x, behind it one that adds up parts, if needed."""
        folding = self._folding(problem)
        shape, tile = folding.shape, ProductTile.of(config)
        parts, threads = _parts(folding, config, limit), tile.tile_m * tile.tile_n // 64
        is_partial = folding.folds or parts > 1
        groups = _count(shape, tile) * parts
        launch = Grid(
            self._program(problem, shape, config, is_partial),
            "igemm_nvidia_weights",
            groups,
            threads,
        )(
            *(
                Memory.WORKSPACE if folding.folds else Memory.X,
                Memory.Y,
                BufferArg(Memory.WORKSPACE, folding.folded_bytes)
                if is_partial
                else BufferArg(Memory.W),
            ),
            *Epilogue.of(problem).arguments,
            parts,
            *shape.arguments,
        )
        return Recipe(
            self.solver_id,
            (
                *((folding.launch(),) if folding.folds else ()),
                launch,
                *((folding.sum(parts),) if is_partial else ()),
            ),
            workspace=_workspace(folding, parts),
            config=config,
        )

    def _folding(self, problem: ConvProblem) -> Folding:
        """The folding of the problem as the kernel sees it."""
        return Folding.of(self._seen(problem))

    def _program(
        self, problem: ConvProblem, shape: GpuGeometry, config: Config, is_partial: bool
    ) -> Program:
        macros: dict[str, DefineValue] = {
            **config.without("parts").defines,
            "CHANNELS_LAST": True,
            "DTYPE": problem.dtype.upper(),
            "SPLIT_FLOATS": _is_split(problem),
            "PARTIAL": is_partial,
        }
        return GPU.program("nvidia_weights", macros, self._compiled_in(shape))


def _is_split(problem: ConvProblem) -> bool:
    return problem.dtype is DataType.FLOAT32 and not problem.allow_tf32


def _count(shape: GpuGeometry, tile: ProductTile) -> int:
    return tile.count(shape.filters, shape.channels * shape.taps) * shape.groups


def _most_parts(shape: GpuGeometry) -> int:
    return max(1, shape.positions // _SHORTEST_PART)


def _filling(shape: GpuGeometry, tile: ProductTile, units: int, most: int) -> list[int]:
    return parts_in_rounds(_count(shape, tile), _RATES[tile][3] * units, most)


def _best(folding: Folding, target: Target) -> tuple[ProductTile, int, float]:
    """The tile and the number of parts that take the fewest seconds, and these."""
    problem, shape, units = folding.problem, folding.shape, target.compute_units
    kind = 0 if _is_split(problem) else 1 if problem.dtype is DataType.FLOAT32 else 2
    choices = []
    for tile, rate in _RATES.items():
        for parts in _filling(shape, tile, units, _most_parts(shape)):
            flops = 2 * tile.tile_m * tile.tile_n * (shape.positions / parts + _AROUND)
            groups, places = _count(shape, tile) * parts, rate[3]
            # Work-groups of a unit share its speed.
            full, rest = divmod(-(-groups // units), places)
            needed = (full * places + rest) * flops * 1e-9 / rate[kind]
            if parts > 1 or folding.folds:
                moved = (2 * parts + 1) * 4 * folding.part_elements
                needed += _LAUNCH_SECONDS + memory_seconds(moved, target, _BANDWIDTH_SHARE)
            if folding.folds:
                moved = 2 * folding.folded_bytes
                needed += _LAUNCH_SECONDS + memory_seconds(moved, target, _BANDWIDTH_SHARE)
            choices.append((tile, parts, needed))
    return min(choices, key=lambda choice: choice[2])


def _parts(folding: Folding, config: Config, limit: Limit) -> int:
    """The parts of a config, or as many as fit the limit."""
    room = None if limit is None else limit - folding.folded_bytes
    return parts_within(room, config.integer("parts"), 4 * folding.part_elements)


def _workspace(folding: Folding, parts: int) -> int:
    """Bytes of the folded x, and of the parts where there are several or w has another form."""
    if parts == 1 and not folding.folds:
        return 0
    return folding.folded_bytes + parts * 4 * folding.part_elements
