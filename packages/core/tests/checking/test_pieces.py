"""Large arrays are drawn and compared in pieces, with the same results on any number of cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import pytest

from convfind.checking import pieces, random_numbers
from convfind.checking.random_data import random_data
from convfind.checking.random_numbers import Distribution
from convfind.checking.tensor_set import same_bytes
from convfind.problem import ConvProblem
from convfind.types import DataType

PLACES = (0, 1, 7, 8, 65535, 65536, (1 << 23) - 1, 1 << 23, 20_000_002)


@pytest.mark.parametrize("size", [1, 7, 8, 65543, 20_000_003])
def test_one_byte_that_differs_is_seen_wherever_it_is(size: int) -> None:
    first = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    other = first.copy()
    assert same_bytes(first, other)
    for place in (size - 1, *(one for one in PLACES if one < size)):
        other[place] ^= 128
        assert not same_bytes(first, other)
        other[place] ^= 128
    assert same_bytes(first, other)


@pytest.mark.parametrize("shape", [(), (3,), (1, 3, 400, 7, 101), (2, 600_001), (1 << 20,)])
def test_work_on_parts_is_done_once_for_each_element(shape: tuple[int, ...]) -> None:
    counts, values = np.zeros(shape), np.zeros(shape, np.float32)
    values[...] = np.arange(values.size).reshape(shape)

    def add(sums: pieces.Array, more: pieces.Array) -> None:
        sums += more + 1

    pieces.in_parts(add, counts, values)
    assert (counts == values + 1).all()


def test_nan_is_the_same_as_itself_and_zero_is_not_minus_zero() -> None:
    values = np.array([np.nan, 1.0, 0.0], np.float32)
    assert same_bytes(values, values.copy())
    assert not same_bytes(values, np.array([np.nan, 1.0, -0.0], np.float32))


@pytest.mark.parametrize("distribution", ["uniform", "normal", "wide", "clipped"])
@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.BFLOAT16, DataType.INT8])
def test_data_are_the_same_on_any_number_of_cores(
    distribution: Distribution, dtype: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random_numbers, "_DRAWN_AT_ONCE", 1000)
    problem = ConvProblem.forward(x=(3, 5, 31, 37), w=(4, 5, 3, 3), dtype=dtype)
    drawn = []
    for cores in (1, 2, 7):
        monkeypatch.setattr(pieces, "usable_cpus", lambda cores=cores: cores)
        random_numbers.ring_of.cache_clear()
        drawn.append(random_data(problem, 5, distribution))
    random_numbers.ring_of.cache_clear()
    for other in drawn[1:]:
        for one, same in zip(drawn[0], other, strict=True):
            np.testing.assert_array_equal(one, same)
    x = drawn[0][0].astype(np.float64).reshape(-1)
    rows = x[: x.size // 1000 * 1000].reshape(-1, 1000)
    assert len(np.unique(rows, axis=0)) == len(rows), "each piece has numbers of its own"


def test_what_one_piece_raises_is_raised() -> None:
    def fail(piece: slice) -> None:
        if piece.start == 4:
            raise ValueError("the third")

    with pytest.raises(ValueError, match="the third"):
        pieces.side_by_side(fail, pieces.slices_of(9, 2))
    assert pieces.slices_of(5, 2) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert pieces.slices_of(0, 2) == []


def test_calls_share_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "usable_cpus", lambda: 2)
    pieces.side_by_side(abs, range(2))
    before = set(threading.enumerate())
    met = threading.Barrier(2)

    def meet(_: int) -> threading.Thread:
        met.wait()  # passed where two threads work at once
        return threading.current_thread()

    workers = {one for _ in range(20) for one in pieces.side_by_side(meet, range(2))}
    assert threading.current_thread() in workers
    assert len(set(threading.enumerate()) - before) <= 1
    assert len(workers) <= 1 + os.cpu_count()  # type: ignore[operator]


def test_results_are_in_the_order_of_the_pieces_in_and_beside_other_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces, "usable_cpus", lambda: 5)

    def inner(base: int) -> list[int]:
        return pieces.side_by_side(lambda one: base + one, range(7))

    def outer(base: int) -> list[list[int]]:
        return pieces.side_by_side(inner, range(base, base + 90, 10))

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(outer, range(0, 30_000, 1000)))
    assert found == [
        [list(range(start, start + 7)) for start in range(base, base + 90, 10)]
        for base in range(0, 30_000, 1000)
    ]


def test_nothing_runs_after_a_call_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "usable_cpus", lambda: 4)
    begun, is_over = [], threading.Event()

    def work(piece: int) -> None:
        begun.append((piece, is_over.is_set()))
        if piece == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pieces.side_by_side(work, range(1000))
    is_over.set()
    pieces.side_by_side(abs, range(100))  # keeps the same threads busy
    assert not any(late for _, late in begun)
    assert len(begun) < 1000


def test_a_thread_that_cannot_be_started_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThreads:
        def submit(self, _: Callable[[], None]) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pieces, "usable_cpus", lambda: 4)
    monkeypatch.setattr(pieces, "_pool", NoThreads)
    assert pieces.side_by_side(abs, [-3, 2, -1]) == [3, 2, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "usable_cpus", lambda: 2)
    pieces.side_by_side(abs, range(100))  # a thread that the fork loses
    child = os.fork()
    if child == 0:
        status = 1
        try:
            met = threading.Barrier(2)

            def meet(_: int) -> bool:
                met.wait(30)
                return threading.current_thread() is threading.main_thread()

            status = sorted(pieces.side_by_side(meet, range(2))) != [False, True]
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (1500, 1500)])
def test_a_copy_is_equal_and_shares_nothing(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).random(shape).astype(np.float32)
    copy = pieces.copied(array)
    assert copy.shape == array.shape
    assert copy.dtype == array.dtype
    assert np.array_equal(copy, array)
    assert not np.shares_memory(copy, array)


def test_a_copy_of_an_array_with_gaps_has_its_values() -> None:
    array = np.arange(60.0).reshape(6, 10).T[::2]
    assert np.array_equal(pieces.copied(array), array)


def test_begun_work_is_done_beside_and_its_errors_are_raised() -> None:
    started = threading.Event()

    def work() -> int:
        started.set()
        return threading.get_ident()

    begun = pieces.Begun(work)
    assert started.wait(60)
    assert begun.result() != threading.get_ident()

    def fail() -> None:
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        pieces.Begun(fail).result()


@pytest.mark.parametrize("handling", ["ignore", "raise"])
def test_other_threads_handle_invalid_numbers_as_the_caller_does(
    monkeypatch: pytest.MonkeyPatch, handling: Literal["ignore", "raise"]
) -> None:
    monkeypatch.setattr(pieces, "usable_cpus", lambda: 2)
    met, started = threading.Barrier(2, timeout=60), threading.Event()

    def meet(_: int) -> str:
        met.wait()  # passed where two threads work at once
        return np.geterr()["invalid"]

    def begin() -> str:
        started.set()
        return np.geterr()["invalid"]

    with np.errstate(invalid=handling):
        assert pieces.side_by_side(meet, range(2)) == [handling, handling]
        begun = pieces.Begun(begin)
        assert started.wait(60)
    assert begun.result() == handling


def test_other_threads_tell_whom_the_caller_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "usable_cpus", lambda: 2)
    met, told = threading.Barrier(2, timeout=60), list[str]()

    def divide(number: int) -> float:
        met.wait()  # passed where two threads work at once
        return float(np.float64(number) / np.float64(0))

    with np.errstate(divide="call", call=lambda error, flag: told.append(error)):
        assert pieces.side_by_side(divide, [1, 2]) == [np.inf, np.inf]
    assert told == 2 * ["divide by zero"]


def test_begun_work_that_no_thread_had_time_for_is_done_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ThreadPoolExecutor(1) as busy:
        monkeypatch.setattr(pieces, "_pool", lambda: busy)
        leave = threading.Event()
        busy.submit(leave.wait)
        with np.errstate(invalid="raise"):
            begun = pieces.Begun(lambda: (threading.get_ident(), np.geterr()["invalid"]))
        with np.errstate(invalid="ignore"):
            found = begun.result()
        leave.set()
        assert found == (threading.get_ident(), "raise")
