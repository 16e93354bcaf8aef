"""Products of references are those of NumPy, and BLAS has as many threads afterwards as before."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

from convfind.checking import products
from convfind.checking.products import blas_of_numpy, own_threads_only, product

SHAPES = [
    ((1, 2, 3), (1, 3, 4)),
    ((2, 5, 300), (2, 300, 7)),
    ((1, 257, 64), (1, 64, 3)),
    ((3, 4, 1), (3, 1, 1001)),
    ((1, 1), (1, 1)),
    ((2, 0, 3), (2, 3, 0)),
    ((2, 131, 300), (2, 300, 70)),
    ((1, 70, 300), (1, 300, 131)),
]


def whole_numbers(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(len(shape)).integers(-9, 10, shape).astype(np.float64)


@pytest.fixture
def threads() -> Any:
    """Return what says how many threads BLAS has."""
    blas = blas_of_numpy()
    if blas is None:
        pytest.skip("NumPy has another BLAS")
    return blas.read


@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_products_are_those_of_numpy(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    one, other = whole_numbers(first), whole_numbers(second)
    assert np.array_equal(product(one, other), one @ other)


def test_operands_may_be_turned_round_or_have_steps() -> None:
    one = whole_numbers((2, 90, 40)).swapaxes(1, 2)
    other = whole_numbers((2, 300, 90))[:, ::2].swapaxes(1, 2)
    assert np.array_equal(product(one, other), one @ other)


def test_products_of_another_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "blas_of_numpy", lambda: None)
    one, other = whole_numbers((2, 5, 300)), whole_numbers((2, 300, 7))
    assert np.array_equal(product(one, other), one @ other)
    with own_threads_only() as is_so:
        assert not is_so


def test_blas_has_its_threads_again_whoever_is_first(threads: Any) -> None:
    before = threads()
    begun, over = threading.Event(), threading.Event()

    def other() -> None:
        with own_threads_only():
            begun.set()
            over.wait()

    thread = threading.Thread(target=other)
    with own_threads_only() as is_so:
        thread.start()
        begun.wait()
        assert is_so
        assert threads() == 1
    assert threads() == 1
    over.set()
    thread.join()
    assert threads() == before


def test_blas_has_its_threads_again_after_an_error(threads: Any) -> None:
    before = threads()
    with pytest.raises(ValueError, match="matmul"):
        product(whole_numbers((2, 3)), whole_numbers((4, 5)))
    assert threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_within_has_blas_as_it_was(threads: Any) -> None:
    before = threads()
    with own_threads_only():
        child = os.fork()
        if not child:
            os._exit(threads() != before)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert threads() == 1
