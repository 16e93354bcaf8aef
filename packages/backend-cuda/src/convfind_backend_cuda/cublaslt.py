"""cuBLASLt by ctypes: products with an epilogue, each by the algorithm that its heuristic names.

Constants and signatures are those of cuBLASLt's documented C interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import (
    POINTER,
    byref,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
    sizeof,
)
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from convfind.backend_kit.library_gemm.scale import gemm_scale
from convfind.backend_kit.library_gemm.solver import LibraryEpilogue
from convfind.errors import LaunchError
from convfind.problem import ActivationKind
from convfind.solver.recipe import GemmEpilogue, LibraryGemm, Matrix
from convfind.types import DataType
from convfind_backend_cuda.blas_library import DATATYPES, check, load, sum_type

_GELU = (ActivationKind.GELU_TANH,)
#: Epilogues of the library that keep what is promised of results. On tensor cores its ReLU makes 0
#: of a NaN; in float32 its GELU is off by more than the bound; sums of 16 bits are rounded before
#: both bias and tensor are added.
EPILOGUE: Final = LibraryEpilogue(
    activations=MappingProxyType(
        {
            DataType.FLOAT32: (ActivationKind.RELU,),
            DataType.FLOAT16: _GELU,
            DataType.BFLOAT16: _GELU,
        }
    ),
    of_tf32=_GELU,
    both=frozenset({DataType.FLOAT32}),
)
_PLAIN, _BIAS = 1, 4
_ACTIVATIONS = {"": 0, ActivationKind.RELU: 2, ActivationKind.GELU_TANH: 32}
_OF_DESCRIPTION = {"TRANSA": 3, "TRANSB": 4, "EPILOGUE": 7, "BIAS_POINTER": 8, "BIAS_STRIDE": 10}
_BATCH_COUNT, _BATCH_STRIDE = 5, 6  # of a layout
_WORKSPACE, _REDUCTIONS, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # of a preference
#: Sums of parts are never rounded to 16 bits on the way, and are the same in every run.
_REDUCE_IN_COMPUTE_TYPE = 2
#: Bytes: addresses at multiples of more are used no better.
_BEST_ALIGNMENT = 256
_SIGNATURES = {
    "cublasLtMatmulDescCreate": (POINTER(c_void_p), c_int, c_int),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatrixLayoutCreate": (POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceCreate": (POINTER(c_void_p),),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulAlgoGetHeuristic": (
        *(c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
        *(c_int, c_void_p, POINTER(c_int)),
    ),
    "cublasLtMatmul": (
        *(c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
        *(c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
        *(c_void_p, c_size_t, c_void_p),
    ),
}


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t of CUDA's header: an algorithm, and what it needs."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


@lru_cache(maxsize=1)
def load_library() -> ctypes.CDLL:
    """Load cuBLASLt. Raises `BackendUnavailableError` saying what to install."""
    return load("cublasLt", _SIGNATURES)


class FusedProduct:
    """A product with an epilogue, described once; a call enqueues it.

    An algorithm may expect addresses at multiples of some bytes. The one for each that occurs is
    asked for once, which needs no device, so that a capture may do it as well.
    """

    def __init__(self, handle: c_void_p, gemm: LibraryGemm, workspace: int) -> None:
        """Describe a product, and ask for an algorithm. Raises `LaunchError` if there is none.

        Args:
            handle: of cuBLAS, whose handles are cuBLASLt's, too.
            gemm: the product.
            workspace: bytes that calls will give.
        """
        self._library = load_library()
        self._destroy: list[tuple[Callable[[c_void_p], int], c_void_p]] = []
        self._handle, self._workspace = handle, workspace
        epilogue = gemm.epilogue or GemmEpilogue()
        self._doing = f"fused product of {gemm.m} x {gemm.k} and {gemm.k} x {gemm.n}"
        self._scales = gemm_scale(gemm.alpha, gemm.c.dtype), gemm_scale(gemm.beta, gemm.c.dtype)
        self._has_bias, self._has_z = epilogue.bias is not None, epilogue.z is not None
        self._bias = 0
        self._description = self._described(gemm, epilogue)
        # cuBLASLt counts by columns, so it computes the transpose: b * a.
        b, a = (gemm.k, gemm.n), (gemm.m, gemm.k)
        self._left = self._layout(gemm.b, *(b if gemm.trans_b else b[::-1]), gemm.batch)
        self._right = self._layout(gemm.a, *(a if gemm.trans_a else a[::-1]), gemm.batch)
        self._result = self._layout(gemm.c, gemm.n, gemm.m, gemm.batch)
        self._preference = self._made("MatmulPreference")
        self._set("MatmulPreference", self._preference, _WORKSPACE, c_uint64(workspace))
        reductions = c_uint32(_REDUCE_IN_COMPUTE_TYPE)
        self._set("MatmulPreference", self._preference, _REDUCTIONS, reductions)
        self._algorithms: dict[int, Heuristic] = {}
        self._algorithm(_alignment(*(matrix.offset for matrix in gemm.matrices)))

    def __del__(self) -> None:
        for destroy, native in getattr(self, "_destroy", ()):
            destroy(native)

    def enqueue(self, stream: int, workspace: int, a: int, b: int, c: int, *more: int) -> None:
        """Enqueue the product of matrices at addresses. Raises `LaunchError`.

        Args:
            stream: the address of its handle.
            workspace: the address of as many bytes as were promised.
            a: the left matrix's.
            b: the right matrix's.
            c: the result's.
            more: those of bias and z where there are.
        """
        algorithm = self._algorithm(_alignment(a, b, c, *more))
        z = more[-1] if self._has_z else c
        if self._has_bias and more[0] != self._bias:
            self._describe("BIAS_POINTER", c_void_p(more[0]))
            self._bias = more[0]
        alpha, beta = self._scales
        status = self._library.cublasLtMatmul(
            *(self._handle, self._description, byref(alpha), b, self._left, a, self._right),
            *(byref(beta), z, self._result, c, self._result, byref(algorithm)),
            *(workspace, self._workspace, stream),
        )
        check(status, "LtMatmul", self._doing, LaunchError)

    def _algorithm(self, alignment: int) -> Heuristic:
        """Return the algorithm for addresses at multiples of some bytes."""
        known = self._algorithms.get(alignment)
        if known is not None:
            return known
        for which in _ALIGNMENTS:
            self._set("MatmulPreference", self._preference, which, c_uint32(alignment))
        found, count = Heuristic(), c_int()
        status = self._library.cublasLtMatmulAlgoGetHeuristic(
            *(self._handle, self._description, self._left, self._right, self._result),
            *(self._result, self._preference, 1, byref(found), byref(count)),
        )
        check(status, "LtMatmulAlgoGetHeuristic", self._doing, LaunchError)
        check(found.state, "LtMatmulAlgoGetHeuristic", self._doing, LaunchError)
        self._algorithms[alignment] = found
        return found

    def _described(self, gemm: LibraryGemm, epilogue: GemmEpilogue) -> c_void_p:
        self._description = self._made("MatmulDesc", *sum_type(gemm))
        self._describe("TRANSA", c_int32(gemm.trans_b))
        self._describe("TRANSB", c_int32(gemm.trans_a))
        word = _ACTIVATIONS[epilogue.activation] | (_BIAS if epilogue.bias else 0)
        self._describe("EPILOGUE", c_uint32(word or _PLAIN))
        if epilogue.bias is not None:
            self._describe("BIAS_STRIDE", c_int64(epilogue.bias.stride))
        return self._description

    def _describe(self, attribute: str, value: Any) -> None:
        self._set("MatmulDesc", self._description, _OF_DESCRIPTION[attribute], value)

    def _layout(self, matrix: Matrix, rows: int, columns: int, batch: int) -> c_void_p:
        """Return a layout by columns; rows and columns are those of what lies in memory."""
        kind = DATATYPES[matrix.dtype]
        layout = self._made("MatrixLayout", kind, rows, columns, matrix.row)
        self._set("MatrixLayout", layout, _BATCH_COUNT, c_int32(batch))
        self._set("MatrixLayout", layout, _BATCH_STRIDE, c_int64(matrix.stride))
        return layout

    def _made(self, kind: str, *arguments: int) -> c_void_p:
        native = c_void_p()
        status = getattr(self._library, f"cublasLt{kind}Create")(byref(native), *arguments)
        check(status, f"Lt{kind}Create", self._doing, LaunchError)
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._destroy.append((getattr(self._library, f"cublasLt{kind}Destroy"), native))
        return native

    def _set(self, kind: str, native: c_void_p, attribute: int, value: Any) -> None:
        set_attribute = getattr(self._library, f"cublasLt{kind}SetAttribute")
        status = set_attribute(native, attribute, byref(value), sizeof(value))
        check(status, f"Lt{kind}SetAttribute", self._doing, LaunchError)


def _alignment(*addresses: int) -> int:
    """Return the power of two of which all addresses are multiples, up to where it matters."""
    bits = _BEST_ALIGNMENT
    for address in addresses:
        bits |= address
    return bits & -bits
