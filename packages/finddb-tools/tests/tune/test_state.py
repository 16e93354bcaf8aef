"""``convfind tune status``: a run seen from outside, by its journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convfind_finddb_tools.tune.campaign import Campaign
from convfind_finddb_tools.tune.state import read_runs, read_state


def begin(campaign: Campaign) -> None:
    """Write what a run with two workers writes, one of them with a failure."""
    campaign.journal.write(
        "started",
        strategy="full",
        workers=2,
        problems=9,
        device="a device",
        dashboard="http://127.0.0.1:8787/status",
    )
    for worker, failure in (("w1", ""), ("w2", "out of memory"), ("w1", "")):
        campaign.journal.write(
            "finished", problem=f"of {worker}", worker=worker, seconds=0.5, failure=failure
        )
    campaign.journal.write("died", problem="bad")
    campaign.journal.write("quarantined", problem="bad")
    campaign.journal.flush()


def test_a_run_under_way_is_seen_while_it_has_the_database(tmp_path: Path) -> None:
    with Campaign(tmp_path / "tuned") as campaign:
        begin(campaign)
        state = read_state(tmp_path / "tuned")
        assert state.is_running
        assert (state.finished, state.total, state.failed) == (3, 9, 1)
        assert (state.died, state.quarantined) == (1, 1)
        assert state.workers["w1"].problems == 2
        assert state.workers["w1"].seconds == pytest.approx(1.0)
        assert state.workers["w2"].last_problem == "of w2"
    assert not read_state(tmp_path / "tuned").is_running


def test_only_the_last_run_counts(tmp_path: Path) -> None:
    with Campaign(tmp_path / "tuned") as campaign:
        begin(campaign)
        campaign.journal.write("stopped", why="interrupted", remaining=6)
        campaign.journal.write("started", strategy="full", workers=1, problems=6, device="d")
    state = read_state(tmp_path / "tuned")
    assert (state.finished, state.total, state.stopped) == (0, 6, "")
    first, last = read_runs(tmp_path / "tuned")
    assert (first.finished, first.total, first.stopped, first.remaining) == (3, 9, "interrupted", 6)
    assert last == state
    assert read_runs(tmp_path / "another") == ()


def test_the_command_shows_it(shell: Callable[..., Any], tmp_path: Path) -> None:
    with Campaign(tmp_path / "tuned") as campaign:
        begin(campaign)
        text = shell("tune", "status", tmp_path / "tuned").stdout
        assert "under way" in text
        assert "3 of 9 problems" in text
        assert "http://127.0.0.1:8787/status" in text
        campaign.journal.write("stopped", why="interrupted", remaining=6)
    text = shell("tune", "status", tmp_path / "tuned").stdout
    assert "ended, interrupted" in text
    assert "6 problems remain" in text
    assert "http" not in text, "a page that is gone"
    failed = shell("tune", "status", tmp_path / "never", code=1)
    assert "no run ever tuned into" in failed.stderr
