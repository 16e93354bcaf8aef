"""Groups of four or eight channels on NVIDIA's matrix units (``mma.sync``), channels last.

A float is the sum of two TF32 numbers (Ootomo and Yokota, "Recovering single precision accuracy
from Tensor Cores", 2022); of the four products of two such sums the smallest is left out, which is
below 2^-20 of the whole. Sums of 32 products and more stay within the bound of plain ones that way;
the worst error measured was 0.42 of it. This meets ``accuracy=strict``: else the two middle
products are one, of bfloat16 and twice as long, with an error of up to 1.4 of the bound.
"""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import memory_seconds, peak_seconds
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import AccuracyClass
from convfind_solvers_direct.gpu.conv import PLAIN_FLOAT32, OneLaunch, Work
from convfind_solvers_direct.window import Window, window

_OLDEST = 80  # mma.sync with TF32, cp.async
_CHANNELS = (4, 8)
#: Two weights of a tap take four registers of a lane.
_MOST_TAPS = 9
#: From this length on, the error of split floats is below ordinary summation error.
_SHORTEST = 32
#: Times that of plain sums, with small parts in bfloat16.
_ROUNDED_BOUND = 2.0
_OCTET, _BLOCK = 8, 16  # channels and columns of a wave
_PIECE_BYTES = 16
#: Local memory that NVIDIA's compiler grants from sm_80 on.
_LOCAL_MEMORY = 160 * 1024
#: Work-items at a time on a unit, of about 100 registers; rows that starting takes as long as.
_RESIDENT_ITEMS, _START_ROWS = 512, 6
_MOST_ITEMS = 256
_MOST_GROUPS = 2**31 - 1
#: Products in TF32 by the peak of plain arithmetic, and the share of the bandwidth. Copies and
#: products add up: 23 and 40 us were measured where these give 21 and 42.
_PRODUCTS_SHARE, _BANDWIDTH_SHARE = 3.3, 0.91

OCTETS = Parameter("octets", (1, 2, 4), "eights of channels of a work-group")
BLOCKS = Parameter("blocks", (1, 2, 4), "times 16 columns of a work-group")
COPIES = Parameter("copies", (1, 2), "pieces of a row that an item copies; 1 leaves columns out")
STAGES = Parameter("stages", (4, 6, 8, 12), "rows in local memory or on their way there")
BANDS = Parameter("bands", (1, 2, 3, 4, 6, 8), "parts of an image's rows, side by side")


class GroupsConv(OneLaunch):
    """Forward and backward-data."""

    channels_last = True
    domain = replace(PLAIN_FLOAT32, features=frozenset({"nv-ptx"}))
    prefix = "direct-nvidia-groups"
    _file = "nvidia_groups"
    version = 2
    backends = ("opencl", "cuda")

    def error_bound(self, problem: ConvProblem) -> float:
        """Return the error that the rounding to bfloat16 adds."""
        return _ROUNDED_BOUND if _products(problem) == 2 else 1.0

    def mixes_values(self, problem: ConvProblem) -> bool:
        """Groups of four: two of them are multiplied as one of eight, with zeros between them."""
        return window(problem).channels < _OCTET

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """All tensors moved once, and the products, also those with what is not there."""
        shape = window(problem)
        wasted = _OCTET / shape.channels * _strips(shape, 1, 2) * _BLOCK / shape.out[1]
        peak = peak_seconds(problem.flops, target)
        arithmetic = peak * _products(problem) * wasted / _PRODUCTS_SHARE
        memory = memory_seconds(problem.traffic, target, _BANDWIDTH_SHARE)
        return max(0.8 * peak / (memory + arithmetic), 0.02)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Return the sizes of a work-group's part, and the rows that are on their way."""
        most = min(_MOST_ITEMS, target.max_work_group)
        shape = window(problem)
        return SearchSpace(
            (OCTETS, BLOCKS, COPIES, STAGES, BANDS),
            (Constraint("items", lambda config: _items(config) <= most, f"at most {most} items"),),
            lambda config: _local_bytes(shape, config),
            _LOCAL_MEMORY,
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The fewest idle waves, and bands that fill the device."""
        shape = window(problem)
        channels = shape.groups * shape.channels
        # Measured on an H200, 32 groups: of 8 channels with 28 x 28, of 4 with 56 x 56.
        most, stages = (4, 4) if shape.channels == _OCTET else (2, 8)
        counts = [count for count in (4, 2, 1) if count <= most]
        octets = min(counts, key=lambda count: -(-channels // (_OCTET * count)) * count)
        copied = ((2, 1), (1, 1), (2, 2), (1, 2))
        blocks, copies = min(copied, key=lambda pair: _strips(shape, *pair) * pair[0])
        config = Config(octets=octets, blocks=blocks, copies=copies, stages=stages, bands=1)
        for name in ("octets", "octets", "blocks"):
            if _items(config) > target.max_work_group:
                config = config.replace(**{name: max(config.integer(name) // 2, 1)})
        slots = target.compute_units * max(_RESIDENT_ITEMS // _items(config), 1)
        each = _work_groups(shape, config)

        def seconds(bands: int) -> float:
            rows = -(-shape.out[0] // bands) + shape.window[0] - 1
            return -(-each * bands // slots) * (rows + _START_ROWS)

        cuts = [int(bands) for bands in BANDS.values if int(bands) <= shape.out[0]]
        return config.replace(bands=min(cuts, key=seconds))

    def _work(self, problem: ConvProblem, shape: Window, target: Target, config: Config) -> Work:
        macros = {**config.without("bands").defines, "PRODUCTS": _products(problem)}
        strips, band = _strips_of(shape, config), -(-shape.out[0] // config.integer("bands"))
        bands = -(-shape.out[0] // band)
        numbers = (
            *(shape.groups * shape.channels, *shape.size, *shape.out),
            *(*shape.zeros_before, strips, -(-shape.out[1] // strips), bands, band),
        )
        return Work(macros, numbers, _work_groups(shape, config) * bands, _items(config))

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if target.compute_capability < _OLDEST:
            return Rejected(Reason.ARCHITECTURE, f"is for sm_{_OLDEST} on, not {target.arch}")
        if shape.channels != shape.filters or shape.channels not in _CHANNELS:
            found = f"{shape.channels} and {shape.filters}"
            return Rejected(Reason.CHANNELS, f"takes 4 or 8 a group on both sides, not {found}")
        if shape.taps > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"is for {_MOST_TAPS} taps at most")
        if _products(problem) > 1 and problem.reduction < _SHORTEST:
            detail = f"sums of {problem.reduction} products, fewer than {_SHORTEST}"
            return Rejected(Reason.ACCURACY, detail)
        one = Config(octets=1, blocks=1, copies=1, stages=4, bands=1)
        if _work_groups(shape, one) * shape.out[0] > _MOST_GROUPS:
            return Rejected(Reason.SIZE_LIMIT, "more work-groups than are counted in 32 bits")
        return APPLICABLE


def _products(problem: ConvProblem) -> int:
    """Products of tensor cores that make one: one in TF32, that and one in bfloat16, or three."""
    if problem.allow_tf32:
        return 1
    return 3 if problem.accuracy is AccuracyClass.STRICT else 2


def _items(config: Config) -> int:
    return 32 * config.integer("octets") * config.integer("blocks")


def _local_bytes(shape: Window, config: Config) -> int:
    """The source's rows, two rows of results, the weights."""
    weights = 4 * _OCTET * config.integer("octets") * shape.taps * shape.channels
    results = 2 * _items(config) * _PIECE_BYTES
    return config.integer("stages") * _row_bytes(config, shape.window[1]) + results + weights


def _row_bytes(config: Config, width: int) -> int:
    pixels = _BLOCK * config.integer("blocks") + width - 1
    return -(-pixels * 2 * config.integer("octets") // 8) * 8 * _PIECE_BYTES


def _strips(shape: Window, blocks: int, copies: int) -> int:
    """Work-groups side by side along a row."""
    columns = _BLOCK * blocks
    return -(-shape.out[1] // min(columns, copies * columns - (shape.window[1] - 1)))


def _strips_of(shape: Window, config: Config) -> int:
    return _strips(shape, config.integer("blocks"), config.integer("copies"))


def _work_groups(shape: Window, config: Config) -> int:
    """Work-groups of one band of all images."""
    channels = _OCTET * config.integer("octets")
    blocks = -(-shape.groups * shape.channels // channels)
    return shape.images * blocks * _strips_of(shape, config)
