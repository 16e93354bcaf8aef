"""The GEMM kernel for CPUs: its register tile, and how work is cut for the cores."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.gemm_lowering.product import Gemm
from convfind.kit.register_tile import PRODUCT
from convfind.kit.sizes import ceil_div, round_up
from convfind.kit.throughput import cpu_index, fill
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.defines import make_defines
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import Launch, i32
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import Direction
from convfind_backend_opencl.gemm.kernel import GemmKernel, kernel_source, product_macros

_VECTOR = 16  # floats
_WIDEST_STRIP = 1024
_PARAMETERS = (
    Parameter("mr", (4, 5, 6, 8, 12, 14), "rows of the register tile"),
    Parameter("vectors", (1, 2), "vectors of 16 columns of the register tile"),
    Parameter("depth", (128, 256, 384, 512), "largest block of K"),
    Parameter("panel_floats", (32768, 65536, 131072), "private memory for a block of B"),
)
#: Share of the peak of a large product.
_BEST_SHARE = 0.85
#: The cost of a float beside products, in operations: of tensors, one that is read in rows as they
#: lie, of weights, and of columns, which are written for a product, or by one to be summed.
_SOURCE_COST, _ROW_COST, _RESULT_COST, _WEIGHT_COST = 50, 120, 37, 100
_COLUMN_COST, _SUMMED_COLUMN_COST = 195, 75
#: That of a group's row of a result, where it is less than a vector.
_ROW_OF_GROUP = 1200
#: Output of one work-item that makes packing cheap, for deciding how to split.
_GOOD_ROWS, _GOOD_COLUMNS = 128, 256


@dataclass(frozen=True, slots=True)
class Blocking:
    """Rows (``share``) and columns (``strip``) of one work-item, and its blocks of K."""

    strip: int
    share: int
    depth: int


class CpuGemm(GemmKernel):
    """gemm_cpu.cl."""

    shortest = 1024

    def search_space(self, target: Target) -> SearchSpace:
        """Register tiles and cache blocks."""
        room = Constraint(
            "panel",
            lambda c: c.integer("panel_floats") >= _width(c) * c.integer("depth"),
            "a block of B holds at least one panel",
        )
        return SearchSpace(_PARAMETERS, (room,))

    def default_config(self, gemm: Gemm, target: Target) -> Config:
        """The register tile of the instruction set, blocks for 1 MiB of cache a core."""
        mr, vectors = PRODUCT.of(target)
        return Config(mr=mr, vectors=vectors, depth=256, panel_floats=131072)

    def index(self, problem: ConvProblem, target: Target, gemm: Gemm, column_bytes: int) -> float:
        """Products of whole tiles, columns and memory."""
        direction = problem.direction
        first, second = map(problem.elements, direction.reads)
        operations = problem.flops / (_BEST_SHARE * fill(gemm.m, 8) * fill(gemm.n, _VECTOR))
        is_sum = direction is Direction.BACKWARD_WEIGHTS
        is_data = direction is Direction.BACKWARD_DATA
        in_rows = problem.x_layout.channels_last and not column_bytes and not is_sum
        operations += first * (_ROW_COST if in_rows else _SOURCE_COST)
        operations += second * (_SOURCE_COST if is_sum else _WEIGHT_COST)
        operations += _RESULT_COST * problem.elements(direction.writes)
        if problem.groups > 1 and gemm.n < _VECTOR and not is_sum:
            operations += _ROW_OF_GROUP * problem.elements(direction.writes) / gemm.n
        operations += column_bytes // 4 * (_SUMMED_COLUMN_COST if is_data else _COLUMN_COST)
        return cpu_index(problem, target, operations, launches=2 if column_bytes else 1)

    def program(self, gemm: Gemm, config: Config) -> Program:
        """gemm_cpu.cl for the product's transposes."""
        macros = {p.name.upper(): config[p.name] for p in _PARAMETERS}
        return Program(
            kernel_source("gemm_cpu"),
            KernelLanguage.OPENCL_C,
            make_defines(macros, product_macros(gemm)),
        )

    def launch(self, gemm: Gemm, target: Target, config: Config) -> Launch:
        """A work-item, alone in its work-group, for each share of a strip."""
        cut = blocking(gemm, config, target.compute_units)
        return Launch(
            KernelSpec(self.program(gemm, config), "gemm_cpu"),
            (*gemm.arguments, i32(cut.strip), i32(cut.share), i32(cut.depth)),
            (ceil_div(gemm.n, cut.strip) * ceil_div(gemm.m, cut.share), gemm.batch),
            (1, 1),
        )

    def missing_parts(self, gemm: Gemm, target: Target, config: Config) -> int:
        """Two well-shaped work-items a core."""
        items = ceil_div(gemm.m, _GOOD_ROWS) * ceil_div(gemm.n, _GOOD_COLUMNS) * gemm.batch
        return ceil_div(2 * target.compute_units, items)


def blocking(gemm: Gemm, config: Config, cores: int) -> Blocking:
    """Cut C wide enough to pay for packing, and into enough pieces for every core.

    Packing B costs 1 / share of the arithmetic and packing A 1 / strip, so the longer side is
    halved first.
    """
    mr, columns, deepest = config.integer("mr"), _width(config), config.integer("depth")
    depth = min(deepest, round_up(ceil_div(gemm.k, ceil_div(gemm.k, deepest)), _VECTOR))
    widest = min(config.integer("panel_floats") // depth // columns * columns, _WIDEST_STRIP)
    strip = round_up(ceil_div(gemm.n, ceil_div(gemm.n, widest)), columns)
    share = round_up(gemm.m, mr)
    least_strip, least_share = 64, 4 * mr  # below, packing costs more than another core brings
    wanted = 1 if cores == 1 else 4 * cores
    while ceil_div(gemm.n, strip) * ceil_div(gemm.m, share) * gemm.batch < wanted:
        can_strip, can_share = strip > least_strip, share > least_share
        if can_share and (share >= strip or not can_strip):
            share = round_up(ceil_div(share, 2), mr)
        elif can_strip:
            strip = round_up(ceil_div(strip, 2), columns)
        else:
            break
    return Blocking(strip, share, depth)


def _width(config: Config) -> int:
    """Columns of the register tile."""
    return _VECTOR * config.integer("vectors")
