"""The progress bar: on terminals, for what lasts, on standard error."""

from __future__ import annotations

import pytest

from convfind.cli import progress
from convfind.cli.progress import ProgressBar


def show() -> None:
    with ProgressBar("network", total=3) as bar:
        bar.advance("first layer", 0)
        bar("measure", 1, 2, "some-solver")
        bar.advance("second layer", 1)


def test_nothing_appears_where_nobody_looks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    show()
    assert capsys.readouterr() == ("", "")


def test_nothing_appears_for_what_is_quick(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich take anything for a terminal
    monkeypatch.setattr(progress, "_PATIENCE", 3600)
    show()
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_the_layer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    show()
    out, err = capsys.readouterr()
    assert out == ""
    assert "second layer" in err
    assert "1/3" in err
