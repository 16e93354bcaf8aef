"""What a model sees of a problem: its sizes, and features in closed form.

The formulas are written once, for numbers and for columns of numbers: a query computes them with
Python's own numbers, which costs less than NumPy for one row, and a batch with arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convfind.problem import ConvProblem
from convfind.types import DataType, Direction, Layout

#: Raised when formulas or their order change: models of other versions are refused.
FEATURES_VERSION = 1

#: The fields of `sizes`. One- and two-dimensional problems have axes of size 1 before their own.
SIZES = (
    *("batch", "channels", "depth", "height", "width"),
    *("out_channels", "out_depth", "out_height", "out_width"),
    *("filter_depth", "filter_height", "filter_width"),
    *("stride_depth", "stride_height", "stride_width"),
    *("padding_depth", "padding_height", "padding_width"),
    *("dilation_depth", "dilation_height", "dilation_width"),
    *("groups", "spatial_rank", "dtype", "x_channels_last", "w_channels_last", "y_channels_last"),
)

#: Index of the feature that is the base-2 logarithm of the multiply-accumulate operations.
LOG_MACS = 26

_DTYPES = {dtype: code for code, dtype in enumerate(DataType)}
_CHANNELS_LAST = {layout: int(layout.channels_last) for layout in Layout}
_ONES = ((), (1,), (1, 1))
_ZEROS = ((), (0,), (0, 0))


def sizes(problem: ConvProblem) -> tuple[int, ...]:
    """The integers that describe a plain problem, in the order of `SIZES`."""
    x_shape = problem.x_shape
    rank = len(x_shape) - 2
    ones = _ONES[3 - rank]
    w_shape = problem.w_shape
    return (
        *x_shape[:2],
        *ones,
        *x_shape[2:],
        w_shape[0],
        *ones,
        *problem.y_shape[2:],
        *ones,
        *w_shape[2:],
        *ones,
        *problem.stride,
        *_ZEROS[3 - rank],
        *problem.padding,
        *ones,
        *problem.dilation,
        problem.groups,
        rank,
        _DTYPES[problem.dtype],
        _CHANNELS_LAST[problem.x_layout],
        _CHANNELS_LAST[problem.w_layout],
        _CHANNELS_LAST[problem.y_layout],
    )


def features(row: Sequence[int], units: int, direction: Direction) -> list[float]:
    """The features of one problem from its `sizes`, on a device with so many compute units."""
    return _features(row, row, units, direction, _PLAIN)


def feature_columns(
    rows: NDArray[np.int32], units: int | NDArray[np.float32], direction: Direction
) -> NDArray[np.float32]:
    """The same for many problems: (problems, fields) to (features, problems)."""
    integers = np.ascontiguousarray(rows.T)
    found = _features(integers, integers.astype(np.float32), units, direction, _VECTOR)
    result = np.empty((len(found), len(rows)), np.float32)
    for place, column in zip(result, found, strict=True):
        place[:] = column
    return result


class _Functions(NamedTuple):
    """What the formulas need beyond operators."""

    log2: Callable[[Any], Any]
    ceil: Callable[[Any], Any]
    minimum: Callable[[Any, Any], Any]
    zeros: Callable[[Any], Any]  # trailing zero bits
    element_size: Callable[[Any], Any]


_SIZE_OF = [dtype.size for dtype in DataType]
_PLAIN = _Functions(
    math.log2, math.ceil, min, lambda n: (n & -n).bit_length() - 1, _SIZE_OF.__getitem__
)
_VECTOR = _Functions(
    np.log2,
    np.ceil,
    np.minimum,
    lambda n: np.log2((n & -n).astype(np.float32)),
    np.array(_SIZE_OF, np.float32).__getitem__,
)


def _features(
    integers: Any, values: Any, units: Any, direction: Direction, functions: _Functions
) -> list[Any]:
    """The formulas. ``values`` are the integers again, as numbers whose products do not overflow.

    ``m``, ``n``, ``k`` are those of the matrix product that the direction amounts to.
    """
    log2, ceil, minimum, zeros, element_size = functions
    b, c, xd, xh, xw, k, yd, yh, yw, fd, fh, fw, sd, sh, sw, pd, ph, pw, _, dh, dw, g = values[:22]
    ib, ic, ixd, ixh, ixw, ik, iyd, iyh, iyw = integers[:9]
    ig, rank, dtype, x_last, w_last, y_last = integers[21:]
    c, k, ic, ik = c / g, k / g, ic // ig, ik // ig
    x, y, f = xd * xh * xw, yd * yh * yw, fd * fh * fw
    log_b, log_c, log_k, log_g = log2(b), log2(c), log2(k), log2(g)
    log_x, log_y, log_f = log2(x), log2(y), log2(f)
    x_elements, y_elements, w_elements = b * c * x * g, b * k * y * g, k * c * f * g
    log_macs = log_b + log_y + log_k + log_c + log_f + log_g
    log_bytes = log2((x_elements + y_elements + w_elements) * element_size(dtype))
    zeros_b, zeros_c, zeros_k, zeros_w = zeros(ib), zeros(ic), zeros(ik), zeros(iyw)
    zeros_x, zeros_y = zeros(ixd * ixh * ixw), zeros(iyd * iyh * iyw)
    if direction is Direction.FORWARD:
        m, n = k, b * y
        log_m, log_n, log_depth = log_k, log_b + log_y, log_c + log_f
        zeros_m, zeros_n, zeros_depth = zeros_k, zeros_b + zeros_y, zeros_c
        depth = c * f
    elif direction is Direction.BACKWARD_DATA:
        m, n = c, b * x
        log_m, log_n, log_depth = log_c, log_b + log_x, log_k + log_f
        zeros_m, zeros_n, zeros_depth = zeros_c, zeros_b + zeros_x, zeros_k
        depth = k * f
    else:
        m, n = k, c * f
        log_m, log_n, log_depth = log_k, log_c + log_f, log_b + log_y
        zeros_m, zeros_n, zeros_depth = zeros_k, zeros_c, zeros_b + zeros_y
        depth = b * y
    rows256, rows128, rows64, rows32 = ceil(m / 256), ceil(m / 128), ceil(m / 64), ceil(m / 32)
    cols256, cols128, cols64, cols32 = ceil(n / 256), ceil(n / 128), ceil(n / 64), ceil(n / 32)
    # Divided last: whole waves must not become 1.0000001, which a ceiling makes two.
    waves_a, waves_b = rows256 * cols128 * g / units, rows128 * cols128 * g / units
    waves_c, waves_d = rows64 * cols64 * g / units, rows32 * cols32 * g / units
    waves_e = rows64 * cols256 * g / units
    pointwise, unit_stride = f == 1, (sd == 1) & (sh == 1) & (sw == 1)
    no_padding = (pd == 0) & (ph == 0) & (pw == 0)
    return [
        *(log_b, log_c, log_k, log_g, log_x, log_y, log_f, log_c + log_g, log_k + log_g),
        *(log2(xh), log2(xw), log2(xd), log2(yh), log2(yw)),
        *(log2(fh), log2(fw), log2(sh), log2(sw), log2(dh), fd, sd, ph, pw),
        *(log_m, log_n, log_depth, log_macs, log_bytes, log_macs - log_bytes),
        *(log_b + log_c + log_x + log_g, log_b + log_k + log_y + log_g, log_k + log_c + log_f),
        *(dtype == _HALF, dtype == _BRAIN, dtype == _BYTE, dtype == _DOUBLE),
        *(x_last, w_last, y_last, rank == 3, (rank == 3) & (xd == 1) & (fd == 1)),
        *(pointwise, unit_stride, no_padding, pointwise & unit_stride & no_padding),
        *(pointwise & no_padding, (fh == 3) & (fw == 3), (yh == xh) & (yw == xw)),
        *(g > 1, (g > 1) & (c == 1), (dh > 1) | (dw > 1)),
        *(minimum(zeros_b, 6), minimum(zeros_c, 6), minimum(zeros_k, 6)),
        *(minimum(zeros_w, 4), minimum(zeros_x, 6), minimum(zeros_y, 6)),
        *(minimum(zeros_b + zeros_y, 8), minimum(zeros_m, 7), minimum(zeros_n, 8)),
        minimum(zeros_depth, 7),
        *(waves_a / ceil(waves_a), waves_b / ceil(waves_b), waves_c / ceil(waves_c)),
        *(waves_d / ceil(waves_d), waves_e / ceil(waves_e)),
        *(log2(waves_a), log2(waves_b), log2(waves_c), log2(waves_d), log2(waves_e)),
        *(m / (256 * rows256), m / (128 * rows128), m / (64 * rows64), m / (32 * rows32)),
        *(n / (256 * cols256), n / (128 * cols128), n / (64 * cols64), n / (32 * cols32)),
        *(depth / (32 * ceil(depth / 32)), depth / (8 * ceil(depth / 8))),
        c / (32 * ceil(c / 32)),
    ]


_HALF, _BRAIN = _DTYPES[DataType.FLOAT16], _DTYPES[DataType.BFLOAT16]
_BYTE, _DOUBLE = _DTYPES[DataType.INT8], _DTYPES[DataType.FLOAT64]
