"""The small closed vocabularies: data types, layouts, directions, algorithms, accuracy classes."""

from __future__ import annotations

from enum import StrEnum

import numpy as np


class Direction(StrEnum):
    """The direction: the one of three tensors that is computed from the other two."""

    FORWARD = "forward"  # reads x, w; writes y
    BACKWARD_DATA = "backward-data"  # reads y, w; writes x
    BACKWARD_WEIGHTS = "backward-weights"  # reads x, y; writes w

    @property
    def short(self) -> str:
        """The form used in keys and tables: ``fwd``, ``bwd-data``, ``bwd-weights``."""
        return _DIRECTION_SHORT[self]

    @property
    def reads(self) -> tuple[str, str]:
        """Names of the two tensors that are read."""
        return _DIRECTION_READS[self]

    @property
    def writes(self) -> str:
        """Name of the tensor that is written."""
        return _DIRECTION_WRITES[self]


_DIRECTION_SHORT = {
    Direction.FORWARD: "fwd",
    Direction.BACKWARD_DATA: "bwd-data",
    Direction.BACKWARD_WEIGHTS: "bwd-weights",
}
_DIRECTION_READS = {
    Direction.FORWARD: ("x", "w"),
    Direction.BACKWARD_DATA: ("y", "w"),
    Direction.BACKWARD_WEIGHTS: ("x", "y"),
}
_DIRECTION_WRITES = {
    Direction.FORWARD: "y",
    Direction.BACKWARD_DATA: "x",
    Direction.BACKWARD_WEIGHTS: "w",
}


class ConvMode(StrEnum):
    """Plain convolution or its transpose ("deconvolution")."""

    CONVOLUTION = "conv"
    TRANSPOSE = "transpose"


class Algorithm(StrEnum):
    """The algorithm families of the field."""

    DIRECT = "direct"
    GEMM = "gemm"
    WINOGRAD = "winograd"
    IMPLICIT_GEMM = "implicit-gemm"
    FFT = "fft"


class AccuracyClass(StrEnum):
    """How much rounding error, beyond that of plain summation, a caller accepts."""

    STRICT = "strict"  # products and sums of the direct formula only
    NORMAL = "normal"  # transforms that cost a small factor: Winograd F(2,3), F(4,3)
    RELAXED = "relaxed"  # also transforms that lose some bits: Winograd F(6,3)


class DataType(StrEnum):
    """Element types of tensors."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    INT32 = "int32"

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return _DTYPE_SIZE[self]

    @property
    def is_float(self) -> bool:
        """True for the floating-point types."""
        return self not in (DataType.INT8, DataType.INT32)

    @property
    def result(self) -> DataType:
        """The usual type of the result of a convolution: int32 for int8, else the same."""
        return DataType.INT32 if self is DataType.INT8 else self

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type; bfloat16 comes from ml_dtypes, imported only when asked for."""
        if self is DataType.BFLOAT16:
            import ml_dtypes

            bfloat16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        return np.dtype(self.value)


_DTYPE_SIZE = {
    DataType.FLOAT64: 8,
    DataType.FLOAT32: 4,
    DataType.FLOAT16: 2,
    DataType.BFLOAT16: 2,
    DataType.INT8: 1,
    DataType.INT32: 4,
}


class Layout(StrEnum):
    """Order of the dimensions in memory, slowest first, in the field's letters.

    For weights the letters are read as N = output channels, C = input channels of one group, so
    ``NCHW`` weights lie as K, C/g, R, S and ``NHWC`` weights as K, R, S, C/g.
    """

    NCW = "NCW"
    NWC = "NWC"
    NCHW = "NCHW"
    NHWC = "NHWC"
    NCDHW = "NCDHW"
    NDHWC = "NDHWC"

    # Attributes, because every solver asks for them about every problem.
    spatial_rank: int  # 1 to 3
    channels_last: bool  # channels are the fastest dimension

    def __init__(self, letters: str) -> None:
        self.spatial_rank = len(letters) - 2
        self.channels_last = letters.endswith("C")

    @classmethod
    def of(cls, spatial_rank: int, *, channels_last: bool = False) -> Layout:
        """Return the layout of that rank."""
        return _LAYOUTS[spatial_rank - 1][channels_last]

    def to_memory(self, logical: tuple[int, ...]) -> tuple[int, ...]:
        """Reorder a tuple given in N, C, spatial order into the order in memory.

        A vector, such as a bias, has one order.
        """
        if not self.channels_last or len(logical) < 2:
            return logical
        return (logical[0], *logical[2:], logical[1])

    def to_logical(self, memory: tuple[int, ...]) -> tuple[int, ...]:
        """Reorder a tuple given in the order in memory into N, C, spatial order."""
        if not self.channels_last or len(memory) < 2:
            return memory
        return (memory[0], memory[-1], *memory[1:-1])

    def packed_strides(self, logical_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Strides in elements, in N, C, spatial order, of a tensor without gaps."""
        strides = []
        step = 1
        for size in reversed(self.to_memory(logical_shape)):
            strides.append(step)
            step *= size
        return self.to_logical(tuple(reversed(strides)))


_LAYOUTS = (
    (Layout.NCW, Layout.NWC),
    (Layout.NCHW, Layout.NHWC),
    (Layout.NCDHW, Layout.NDHWC),
)
