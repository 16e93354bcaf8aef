"""Seconds of a library's matrix products, as fitted to times of cuBLAS on an H200.

Of the 961 times that are shipped three of four are within 1.7 times what is expected, and all but
one in a hundred within four times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from convfind.backend_kit.library_gemm.products import is_one_call
from convfind.device.target import Target
from convfind.kit.gemm_lowering.product import Gemm
from convfind.kit.sizes import ceil_div, round_up
from convfind.kit.throughput import memory_seconds, peak_seconds
from convfind.problem import ConvProblem
from convfind.types import DataType

#: Seconds of a call however small its products are. Calls that add to the same sum wait for each
#: other, and many calls are two kernels: one that splits the sums, and one that adds the parts up.
_CALL = 20e-6
_LAUNCH = 3e-6
#: Edge of a tile, and the length of the parts of its sum, that occupy a compute unit.
_TILE, _PART = 32, 512
_ARITHMETIC_SHARE = 0.75
_MEMORY_SHARE = 0.25
#: Arithmetic on matrix units, over that on float32 without them.
_RATES: Final[Mapping[DataType, float]] = {
    DataType.FLOAT64: 0.5,
    DataType.FLOAT16: 4.0,
    DataType.BFLOAT16: 4.0,
    DataType.INT8: 4.0,
}
_TF32_RATE = 6.0


def product_seconds(gemm: Gemm, problem: ConvProblem, target: Target, *, is_sum: bool) -> float:
    """Return the seconds of a batch of products; ``is_sum``: of one product after the other."""
    calls = gemm.outer if is_sum else 1 if is_one_call(gemm) else min(gemm.outer, gemm.inner)
    batch = gemm.batch // calls
    tiles = ceil_div(gemm.m, _TILE) * ceil_div(gemm.n, _TILE) * ceil_div(gemm.k, _PART) * batch
    busy = min(1.0, tiles / target.compute_units)
    operations = 2 * round_up(gemm.m, _TILE) * round_up(gemm.n, _TILE) * gemm.k * batch
    rate = _RATES.get(problem.dtype, 1.0)
    if problem.allow_tf32:
        rate = _TF32_RATE
    arithmetic = peak_seconds(operations, target) / (rate * _ARITHMETIC_SHARE * busy)
    elements = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n
    nbytes = problem.dtype.numpy.itemsize * elements * batch
    return calls * (_CALL + max(arithmetic, memory_seconds(nbytes, target, _MEMORY_SHARE * busy)))


def lowering_seconds(nbytes: float, launches: int, target: Target) -> float:
    """Return the seconds of what goes before and after products: so many bytes, and launches."""
    return launches * _LAUNCH + memory_seconds(nbytes, target, 2 * _MEMORY_SHARE)
