"""Which of two measurements of one solver a database keeps."""

from __future__ import annotations

from typing import Any

import pytest

from convfind.finddb import FindEntry, FindRecord
from convfind.finddb.evidence import is_noisy, supersedes
from convfind.finddb.merge import merge_entries


def record(time_ms: float, spread: float = 0.02, **fields: Any) -> FindRecord:
    """A record whose spread is a share of its time."""
    given: dict[str, Any] = {
        "solver": "a",
        "solver_version": 1,
        "package": "test 1.0",
        "algorithm": "direct",
        "samples": 40,
        "driver": "1",
        "source_hash": "h",
        "config": {"tile": 4},
    }
    return FindRecord(time_ms=time_ms, spread_ms=spread * time_ms, **given | fields)


QUIET, BUSY = record(1.9), record(46.6, 0.6)

TAKEN = {
    "a later quiet one, though slower": (record(2.4), QUIET),
    "one within the usual noise": (record(2.4, 0.2), QUIET),
    "a quiet one for a noisy one": (record(3.0), record(1.9, 0.6)),
    "one that is less noisy": (record(3.0, 0.4), record(1.9, 0.6)),
    "a noisy one that is faster beyond doubt": (record(1.0, 0.5), QUIET),
    "a whole one for one of a candidate given up": (record(3.0), record(2.0, samples=2)),
    "one of a candidate given up that is faster by far": (record(1.4, 0.0, samples=2), QUIET),
    "one of another driver, however noisy": (record(46.6, 0.6, driver="2"), QUIET),
    "one of other kernels": (record(46.6, 0.6, source_hash="other"), QUIET),
    "a faster config": (record(1.8, config={"tile": 8}), QUIET),
}
REFUSED = {
    "a noisy one": (BUSY, QUIET),
    "a noisy one that may be faster": (record(1.5, 0.5), QUIET),
    "one of a candidate given up": (record(46.6, samples=2), QUIET),
    "one of a candidate given up that may be faster": (record(1.7, 0.0, samples=2), QUIET),
    "a noisier one for a noisy one": (record(46.6, 2.0), record(1.9, 0.3)),
    "a slower config": (record(2.4, config={"tile": 8}), QUIET),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_a_record_gives_way_to(kind: str) -> None:
    new, old = TAKEN[kind]
    assert supersedes(new, old)
    entries = (FindEntry(records=(one,), considered=("a@1",)) for one in (old, new))
    assert merge_entries(*entries).records == (new,)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("kind", REFUSED)
def test_a_record_stays_beside(kind: str, replace: bool) -> None:
    new, old = REFUSED[kind]
    assert not supersedes(new, old)
    entries = (FindEntry(records=(one,), considered=("a@1",)) for one in (old, new))
    assert merge_entries(*entries, replace=replace).records == (old,)


def test_a_config_that_was_searched_for_again_counts_though_slower() -> None:
    new = record(2.4, config={"tile": 8}, workspace=64)
    old = FindEntry(records=(QUIET,), considered=("a@1",))
    entry = FindEntry(records=(new,), considered=("a@1",))
    assert merge_entries(old, entry, replace=True, tuned_again=True).records == (new,)
    assert merge_entries(old, entry, replace=True).records == (QUIET, new)
    assert merge_entries(old, entry).records == (QUIET, new)


def test_a_measurement_is_noisy_from_a_quarter_on() -> None:
    assert not is_noisy(2.0, 0.5)
    assert is_noisy(2.0, 0.51)
    assert not is_noisy(0.0, 0.0)
