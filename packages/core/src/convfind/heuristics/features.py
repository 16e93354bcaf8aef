"""Inputs of a model for a problem: its sizes, and features in closed form.

The formulas are written once, for numbers and for columns of numbers: a query computes them with
Python's own numbers, which costs less than NumPy for one row, and a batch with arrays. Sums of
features are not needed: the first layer of a network can add. Remainders of sizes modulo
powers of two follow the formulas; a query looks them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convfind.problem import ConvProblem
from convfind.problem.fields import FIELDS, SizesField
from convfind.types import DataType, Direction, Layout

#: Raised when formulas or their order change: models of other versions are refused.
FEATURES_VERSION = 3

#: The problem's fields that `sizes` has beside its shapes; all others must have usual values.
DESCRIBED = frozenset(
    {
        *("direction", "stride", "padding", "dilation", "groups"),
        *("dtype", "x_layout", "w_layout", "y_layout"),
    }
)

_AXES = ("depth", "height", "width")
#: The smallest values of the described fields that have a number for each axis.
LEAST = {
    f"{field.name}_{axis}": field.least
    for field in FIELDS
    if isinstance(field, SizesField) and field.name in DESCRIBED
    for axis in _AXES
}

#: The fields of `sizes`. One- and two-dimensional problems have axes of size 1 before their own.
SIZES = (
    *("batch", "channels", "depth", "height", "width"),
    *("out_channels", "out_depth", "out_height", "out_width"),
    *("filter_depth", "filter_height", "filter_width"),
    *LEAST,
    *("groups", "spatial_rank", "dtype", "x_channels_last", "w_channels_last", "y_channels_last"),
)

#: The bits of a size that each of its remainders keeps.
_KEPT = (
    (3, 7, 15, 31, 63, 127),  # input channels of a group
    (3, 7, 15, 31, 63, 127, 255),  # output channels of a group
    (1, 3, 7, 15, 31, 63),  # batch
    (1, 3, 7, 15, 31),  # width of y
    (3, 15, 31, 63),  # points of y
    (3, 63),  # points of x
    (31, 63, 127, 255),  # columns of the matrix product
    (3, 7, 15, 31, 63),  # its depth
)

#: Number of features that are formulas.
FORMULAS = 72

#: Number of features at the end that are remainders.
REMAINDERS = sum(map(len, _KEPT))

#: Number of all features.
FEATURES = FORMULAS + REMAINDERS

#: Index of the feature that is the base-2 logarithm of the multiply-accumulate operations.
LOG_MACS = 20

#: Indices of the features that ramps bend: the logarithms of batch, channels and sizes.
BENT = (0, 1, 2, 4, 5, 8, 9, 10)

_DTYPES = {dtype: code for code, dtype in enumerate(DataType)}
_CHANNELS_LAST = {layout: int(layout.channels_last) for layout in Layout}
_ONES = ((), (1,), (1, 1))
_ZEROS = ((), (0,), (0, 0))


def sizes(problem: ConvProblem) -> tuple[int, ...]:
    """Return the integers that describe a plain problem, in the order of `SIZES`."""
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


def features(
    row: Sequence[int], units: int, direction: Direction, *, remainders: bool = True
) -> bytes:
    """Return one problem's features from its `sizes`, for a device with ``units`` compute units.

    They are float32 numbers in memory, like a network's inputs. Networks that do not use
    remainders omit them.
    """
    formulas, (c, k, b, yw, y, x, n, depth) = _features(row, units, direction, _PLAIN)
    if not remainders:
        return _PACK(*formulas)
    of_c, of_k, of_b, of_yw, of_y, of_x, of_n, of_depth = _REMAINDERS
    return b"".join(
        (
            _PACK(*formulas),
            of_c[c & 255],
            of_k[k & 255],
            of_b[b & 255],
            of_yw[yw & 255],
            of_y[y & 255],
            of_x[x & 255],
            of_n[n & 255],
            of_depth[depth & 255],
        )
    )


def feature_columns(
    rows: NDArray[np.int32],
    units: int | NDArray[np.float32],
    direction: Direction,
    out: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Return the features of many problems: (problems, fields) to (features, problems).

    They are written into ``out`` if given; without remainders if that has rows for formulas only.
    """
    formulas, sizes = _features(rows.T.astype(np.int64, order="C"), units, direction, _VECTOR)
    result = np.empty((FEATURES, len(rows)), np.float32) if out is None else out
    for place, column in zip(result, formulas, strict=False):
        place[:] = column
    if len(result) > FORMULAS:
        lowest = np.array([size.astype(np.uint8) for size in sizes])
        np.bitwise_and(lowest[_SIZE_OF], _BITS_OF, out=result[FORMULAS:], casting="unsafe")
    return result


class _Functions(NamedTuple):
    """Functions that the formulas need beyond operators; the tables count trailing zeros."""

    log2: Callable[[Any], Any]
    ceil: Callable[[Any], Any]
    zeros4: Any
    zeros6: Any
    zeros8: Any
    element_size: Any


def _zeros(bits: int) -> list[float]:
    return [float(bits), *(float((n & -n).bit_length() - 1) for n in range(1, 1 << bits))]


def _log2(numbers: NDArray[Any]) -> NDArray[np.float32]:
    return np.log2(numbers.astype(np.float32))


# Floats and bytes: to turn an integer into a float32 costs as much as a formula.
_TABLES = (_zeros(4), _zeros(6), _zeros(8), [dtype.size for dtype in DataType])
_PACK = Struct(f"{FORMULAS}f").pack
_REMAINDERS = tuple(
    tuple(np.array([byte & bits for bits in kept], np.float32).tobytes() for byte in range(256))
    for kept in _KEPT
)
_SIZE_OF = np.repeat(np.arange(len(_KEPT)), [len(kept) for kept in _KEPT])
_BITS_OF = np.concatenate([np.array(kept, np.uint8) for kept in _KEPT])[:, None]
_PLAIN = _Functions(math.log2, math.ceil, *_TABLES)
_VECTOR = _Functions(_log2, np.ceil, *(np.array(table, np.float32) for table in _TABLES))


def _features(
    integers: Sequence[Any] | NDArray[np.int64],
    units: int | NDArray[np.float32],
    direction: Direction,
    functions: _Functions,
) -> tuple[list[Any], tuple[Any, ...]]:
    """Return the formulas' values, and the sizes whose remainders are features.

    ``m``, ``n``, ``depth``: the sizes of the direction's matrix product.
    """
    log2, ceil, zeros4, zeros6, zeros8, element_size = functions
    b, c, xd, xh, xw, k, yd, yh, yw, fd, fh, fw, sd, sh, sw, pd, ph, pw, *others = integers
    _, dh, dw, g, rank, dtype, x_last, w_last, y_last = others
    c, k = c // g, k // g
    x, y, f = xd * xh * xw, yd * yh * yw, fd * fh * fw
    if direction is _FORWARD:
        m, n, depth = k, b * y, c * f
    elif direction is _BACKWARD_DATA:
        m, n, depth = c, b * x, k * f
    else:
        m, n, depth = k, c * f, b * y
    rows256, rows128, rows64, rows32 = m + 255 >> 8, m + 127 >> 7, m + 63 >> 6, m + 31 >> 5
    cols256, cols128, cols64, cols32 = n + 255 >> 8, n + 127 >> 7, n + 63 >> 6, n + 31 >> 5
    # Divided last: whole waves must not become 1.0000001, which a ceiling makes two.
    waves_a, waves_b = rows256 * cols128 * g / units, rows128 * cols128 * g / units
    waves_c, waves_d = rows64 * cols64 * g / units, rows32 * cols32 * g / units
    waves_e = rows64 * cols256 * g / units
    pointwise, no_padding = f == 1, pd + ph + pw == 0
    unit_stride = sd * sh * sw == 1
    product = pointwise & no_padding
    elements = b * g * (c * x + k * y) + k * c * f * g
    # One flat list: stars in it cost a third more time.
    # fmt: off
    formulas = [
        log2(b), log2(c), log2(k), log2(g), log2(xh), log2(xw), log2(xd), log2(y), log2(yh),
        log2(yw), log2(f), log2(fh), log2(fw), log2(sh), log2(sw), log2(dh), fd, sd, ph, pw,
        log2(b * y * g * k * c * f), log2(elements * element_size[dtype]),
        dtype == _HALF, dtype == _BRAIN, dtype == _BYTE, dtype == _DOUBLE, x_last, w_last, y_last,
        rank == 3, (rank == 3) & (xd * fd == 1), pointwise, unit_stride, no_padding,
        product & unit_stride, product, (fh == 3) & (fw == 3), (yh == xh) & (yw == xw),
        g > 1, (g > 1) & (c == 1), dh * dw > 1,
        zeros6[b & 63], zeros6[c & 63], zeros6[k & 63], zeros4[yw & 15], zeros6[x & 63],
        zeros6[y & 63], zeros8[b * y & 255], zeros8[m & 255], zeros8[n & 255], zeros8[depth & 255],
        waves_a / ceil(waves_a), waves_b / ceil(waves_b), waves_c / ceil(waves_c),
        waves_d / ceil(waves_d), waves_e / ceil(waves_e),
        log2(waves_a), log2(waves_b), log2(waves_c), log2(waves_d), log2(waves_e),
        m / (rows256 << 8), m / (rows128 << 7), m / (rows64 << 6), m / (rows32 << 5),
        n / (cols256 << 8), n / (cols128 << 7), n / (cols64 << 6), n / (cols32 << 5),
        depth / (depth + 31 & -32), depth / (depth + 7 & -8), c / (c + 31 & -32),
    ]
    # fmt: on
    return formulas, (c, k, b, yw, y, x, n, depth)


_FORWARD, _BACKWARD_DATA = Direction.FORWARD, Direction.BACKWARD_DATA  # quicker to look up
_HALF, _BRAIN = _DTYPES[DataType.FLOAT16], _DTYPES[DataType.BFLOAT16]
_BYTE, _DOUBLE = _DTYPES[DataType.INT8], _DTYPES[DataType.FLOAT64]
