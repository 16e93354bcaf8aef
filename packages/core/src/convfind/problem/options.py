"""`ConvOptions`: the keywords of `ConvProblem.forward`, `backward_data` and `backward_weights`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import SupportsFloat, SupportsIndex, TypedDict

import numpy as np

from convfind.arguments import similar
from convfind.errors import ProblemError
from convfind.types import AccuracyClass, ConvMode, DataType, Layout

Sizes = Iterable[SupportsIndex]
PerAxis = SupportsIndex | Sizes


class ConvOptions(TypedDict, total=False):
    """Keywords of a convolution; a number applies to every spatial axis, a sequence to each."""

    stride: PerAxis  # 1
    padding: (
        SupportsIndex | str | Iterable[SupportsIndex | Sizes]
    )  # 0; "same", "valid", (begin, end)
    dilation: PerAxis  # 1, which is none
    groups: SupportsIndex  # 1
    mode: ConvMode | str  # "conv" or "transpose"
    output_padding: PerAxis  # 0; of transposed convolutions
    dtype: DataType | str  # "float32"; of x and w
    y_dtype: DataType | str | None  # of y; None: goes with dtype
    layout: Layout | str | None  # of all three tensors; None: channels first
    x_layout: Layout | str | None
    w_layout: Layout | str | None
    y_layout: Layout | str | None
    x_strides: Sizes | None  # in elements, N, C, spatial order; None: no gaps
    w_strides: Sizes | None
    y_strides: Sizes | None
    alpha: SupportsFloat  # 1; scales the convolution
    beta: SupportsFloat  # 0; scales the previous contents of the result, which are added
    deterministic: bool | np.bool_  # False; True: the same bits in every run
    allow_tf32: bool | np.bool_  # False; True: products may be rounded to TF32
    accuracy: AccuracyClass | str  # "normal", "strict" or "relaxed"


_NAMES = tuple(ConvOptions.__annotations__)


def check_names(options: Mapping[str, object]) -> None:
    """Raise `ProblemError` for a keyword that is not in `ConvOptions`, naming similar ones."""
    if not options.keys() <= ConvOptions.__annotations__.keys():
        name = min(options.keys() - set(_NAMES))
        raise ProblemError("keyword", name, ", ".join(similar(name, _NAMES) or _NAMES))
