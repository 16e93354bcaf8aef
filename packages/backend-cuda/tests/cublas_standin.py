"""cuBLAS and cuBLASLt where there is no GPU: products over the host's memory, by NumPy.

Calls go through C function pointers of the types that the backend declares, so that what it passes
is converted as for the libraries themselves.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest
from cuda_standin import StandinDriver

import convfind_backend_cuda.cublas
import convfind_backend_cuda.cublaslt
from convfind.types import DataType
from convfind_backend_cuda.cublaslt import Heuristic

_TYPES = {0: DataType.FLOAT32, 1: DataType.FLOAT64, 2: DataType.FLOAT16, 14: DataType.BFLOAT16}
_NOT_SUPPORTED = 15
_SCALARS: dict[int, type[Any]] = {0: ctypes.c_float, 1: ctypes.c_double}
Array = np.ndarray[Any, Any]


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))


_ACTIVATIONS: dict[int, Callable[[Array], Array]] = {
    0: lambda x: x,
    2: lambda x: np.where(x < 0, 0, x),
    32: _gelu,
}


class StandinBlas:
    """Both libraries. ``journal`` tells what was computed, and on which stream."""

    def __init__(self, driver: StandinDriver) -> None:
        self.journal: list[tuple[Any, ...]] = []
        self.alignments: list[int] = []  # that algorithms were asked for
        self.living: set[int] = set()  # what was created and not destroyed
        self.refuses = False
        self._driver = driver
        self._stream = 0
        self._attributes: dict[int, dict[int, int]] = {}
        self._made: dict[int, tuple[int, ...]] = {}
        self._next = 0x1000
        signatures: dict[str, tuple[Any, ...]] = {
            **convfind_backend_cuda.cublas._SIGNATURES,
            **convfind_backend_cuda.cublaslt._SIGNATURES,
        }
        for call, types in signatures.items():
            simple = [c_void_p if issubclass(one, ctypes._Pointer) else one for one in types]
            function = ctypes.CFUNCTYPE(c_int, *simple)(self._function(call))
            setattr(self, call, _Call(function, types))

    def _function(self, call: str) -> Callable[..., int]:
        if call.endswith("SetAttribute"):
            return self._set_attribute
        if call.startswith("cublasLt") and call.endswith("Create"):
            return self._create
        if call.startswith("cublasLt") and call.endswith("Destroy"):
            return self._destroy
        functions: dict[str, Callable[..., int]] = {
            "cublasCreate_v2": self._create,
            "cublasDestroy_v2": self._destroy,
            "cublasSetStream_v2": self._set_stream,
            "cublasSetWorkspace_v2": lambda handle, address, size: 0,
            "cublasSetMathMode": lambda handle, mode: 0,
            "cublasGemmStridedBatchedEx": self._product,
            "cublasLtMatmulAlgoGetHeuristic": self._heuristic,
            "cublasLtMatmul": self._matmul,
        }
        return functions[call]

    # -- objects ----------------------------------------------------------------------------------

    def _create(self, where: int, *arguments: int) -> int:
        self._next += 1
        c_void_p.from_address(where).value = self._next
        self.living.add(self._next)
        self._made[self._next], self._attributes[self._next] = arguments, {}
        return 0

    def _destroy(self, made: int) -> int:
        self.living.remove(made)
        return 0

    def _set_attribute(self, made: int, attribute: int, where: int, size: int) -> int:
        word: Any = {4: c_uint32, 8: c_uint64}[size]
        self._attributes[made][attribute] = word.from_address(where).value
        return 0

    def _set_stream(self, handle: int, stream: int | None) -> int:
        self._stream = stream or 0
        return 0

    # -- products ---------------------------------------------------------------------------------

    def _product(self, handle: int, turn_a: int, turn_b: int, *rest: Any) -> int:
        m, n, k, alpha, a, a_type, lda, a_step, b, b_type, ldb, b_step, *more = rest
        beta, c, c_type, ldc, c_step, batch, _sums, _algorithm = more
        scalar = _SCALARS[1 if c_type == 1 else 0]
        scale, keep = (scalar.from_address(one).value for one in (alpha, beta))

        def run(stream: int) -> int:
            self.journal.append(("product", stream))
            shapes = (k, m) if turn_a else (m, k), (n, k) if turn_b else (k, n)
            left = _columns(a, a_type, *shapes[0], lda, batch, a_step).astype(np.float64)
            right = _columns(b, b_type, *shapes[1], ldb, batch, b_step).astype(np.float64)
            result = _columns(c, c_type, m, n, ldc, batch, c_step)
            total = scale * (_turned(left, turn_a) @ _turned(right, turn_b))
            result[...] = total + keep * result.astype(np.float64) if keep else total
            return 0

        return self._driver.do(run, self._stream)

    def _heuristic(self, handle: int, *rest: Any) -> int:
        _operation, _a, _b, _c, _d, preference, wanted, found, count = rest
        assert wanted == 1
        aligned = self._attributes[preference]
        assert aligned[5] == aligned[6] == aligned[7] == aligned[8]
        self.alignments.append(aligned[5])
        if self.refuses:
            return _NOT_SUPPORTED
        Heuristic.from_address(found).algorithm[0] = aligned[5]
        c_int.from_address(count).value = 1
        return 0

    def _matmul(self, handle: int, operation: int, alpha: int, *rest: Any) -> int:
        a, a_layout, b, b_layout, beta, z, z_layout, d, d_layout, algorithm, *end = rest
        _workspace, size, stream = end
        how, (_sums, factors) = self._attributes[operation], self._made[operation]
        scale, keep = (_SCALARS[factors].from_address(one).value for one in (alpha, beta))
        aligned = Heuristic.from_address(algorithm).algorithm[0]
        assert size == 32 << 20
        word = how[7]
        bias = how[8] if word & 4 else 0
        assert all(address % aligned == 0 for address in (a, b, z, d, bias))

        def run(stream: int) -> int:
            self.journal.append(("fused", word, stream))
            left, right = (
                _turned(self._matrix(at, layout).astype(np.float64), how[turned])
                for at, layout, turned in ((a, a_layout, 3), (b, b_layout, 4))
            )
            total = scale * (left @ right)
            if keep:
                total += keep * self._matrix(z, z_layout).astype(np.float64)
            result = self._matrix(d, d_layout)
            if bias:
                batch, rows, _ = result.shape
                kind = self._made[d_layout][0]
                total += _columns(bias, kind, rows, 1, rows, batch, how[10]).astype(np.float64)
            result[...] = _ACTIVATIONS[word & ~5](total)
            return 0

        return self._driver.do(run, stream or 0)

    def _matrix(self, address: int, layout: int) -> Array:
        more = self._attributes[layout]
        batch, step = c_int32(more[5]).value, c_int64(more[6]).value
        kind, rows, columns, lead = self._made[layout]
        return _columns(address, kind, rows, columns, lead, batch, step)


class _Call:
    """A function of C: Python's objects go in as the declared types, pointers as addresses."""

    def __init__(self, function: Any, types: tuple[Any, ...]) -> None:
        self._function, self._types = function, types

    def __call__(self, *arguments: Any) -> int:
        assert len(arguments) == len(self._types)
        status: int = self._function(
            *(
                ctypes.cast(given, c_void_p) if issubclass(kind, ctypes._Pointer) else given
                for given, kind in zip(arguments, self._types, strict=True)
            )
        )
        return status


def _columns(
    address: int, kind: int, rows: int, columns: int, lead: int, batch: int, step: int
) -> Array:
    """Return matrices that lie by columns in the host's memory."""
    dtype = _TYPES[kind].numpy
    size = ((batch - 1) * step + (columns - 1) * lead + rows) * dtype.itemsize
    memory = memoryview((ctypes.c_ubyte * size).from_address(address))
    strides = tuple(one * dtype.itemsize for one in (step, 1, lead))
    return np.ndarray((batch, rows, columns), dtype, memory, 0, strides)


def _turned(matrices: Array, turned: int) -> Array:
    return np.swapaxes(matrices, 1, 2) if turned else matrices


@contextmanager
def standin_blas(driver: StandinDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandinBlas]:
    """Put a stand-in in the place of both libraries."""
    blas = StandinBlas(driver)
    for module in (convfind_backend_cuda.cublas, convfind_backend_cuda.cublaslt):
        monkeypatch.setattr(module, "load_library", lambda: blas)
    yield blas
