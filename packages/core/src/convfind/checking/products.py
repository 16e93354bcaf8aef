"""`product`: matrix products of references, by threads of this process and none of BLAS's own.

A thread of OpenBLAS's looks out for work for a tenth of a second after each product. Kernels that
run on a CPU meanwhile, such as those of the candidate that is checked and timed next, have to share
a core with it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from convfind.checking.pieces import side_by_side, slices_of
from convfind.settings import usable_cpus

Doubles = np.ndarray[Any, np.dtype[np.float64]]

#: The module of NumPy, of versions 2 and 1, that calls BLAS.
_CALLERS = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
#: Before and behind the names of OpenBLAS's functions, in NumPy's wheels and elsewhere.
_NAMES = (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", ""))
#: Multiplications from which on threads share a product: handing it over takes 0.1 ms.
_WORTH_SHARING = 1 << 20


def product(first: Doubles, second: Doubles) -> Doubles:
    """Multiply matrices, or stacks of them."""
    with own_threads_only() as is_so:
        if not is_so:
            return first @ second
        rows, columns = first.shape[-2], second.shape[-1]
        if first.size * columns < _WORTH_SHARING:
            return first @ second
        result = np.empty((*first.shape[:-2], rows, columns))

        def multiply(part: slice) -> None:
            if columns >= rows:
                np.matmul(first, second[..., part], out=result[..., part])
            else:
                np.matmul(first[..., part, :], second, out=result[..., part, :])

        longest = max(rows, columns, 1)
        side_by_side(multiply, slices_of(longest, -(-longest // usable_cpus())))
        return result


@contextmanager
def own_threads_only() -> Iterator[bool]:
    """Keep BLAS, within the statement, to the threads that call it; say whether that is so."""
    blas = blas_of_numpy()
    if blas is None:
        yield False
        return
    blas.enter()
    try:
        yield True
    finally:
        blas.leave()


class _Blas:
    """The number of threads of the process's OpenBLAS, which any number of users keep at one."""

    def __init__(self, read: Callable[[], int], write: Callable[[int], None]) -> None:
        self.read, self._write = read, write
        self._lock = Lock()
        self._users, self._before = 0, 1

    def enter(self) -> None:
        """Have one thread from now on."""
        with self._lock:
            if not self._users:
                self._before = self.read()
                self._write(1)
            self._users += 1

    def leave(self) -> None:
        """Have as many threads as before, once nobody else wants one."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._write(self._before)

    def forget_users(self) -> None:
        """Have as many threads as before: those who wanted one are in the process that forked."""
        if self._users:
            self._write(self._before)
        self._lock, self._users = Lock(), 0


@cache
def blas_of_numpy() -> _Blas | None:
    """Return NumPy's BLAS where it is an OpenBLAS."""
    with suppress(OSError):
        caller = next(sys.modules[name] for name in _CALLERS if name in sys.modules)
        library = ctypes.CDLL(str(caller.__file__))
        for before, behind in _NAMES:
            read = getattr(library, f"{before}openblas_get_num_threads{behind}", None)
            write = getattr(library, f"{before}openblas_set_num_threads{behind}", None)
            if read is not None and write is not None:
                blas = _Blas(read, write)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=blas.forget_users)
                return blas
    return None
