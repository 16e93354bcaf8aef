"""Tables and sentences on terminals: a line where there is room, several where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from convfind.cli.narrow import narrow, wrapped
from convfind.text import new_table

LAYER = ("--x", "1,2,4,4", "--w", "2,2,3,3", "--padding", "1")


@pytest.fixture
def table() -> Any:
    table = new_table("solver", "ms", "workspace", "because", right=("ms", "workspace"))
    table.add_row("a-solver-with-a-name", "1.234", "16 B", "")
    table.add_row("another", "12.34", "1.5 GiB", "it needs more workspace than it may have")
    return table


def test_a_row_goes_on_below(table: Any) -> None:
    assert list(narrow(table, 44)) == [
        "solver                   ms  workspace",
        "    because",
        "\u2500" * 44,
        "a-solver-with-a-name  1.234       16 B",
        "another               12.34    1.5 GiB",
        "    it needs more workspace than it may have",
    ]


def test_prose_is_wrapped_between_words(table: Any) -> None:
    lines = list(narrow(table, 32))
    assert lines[-2:] == ["    it needs more workspace than", "    it may have"]
    assert max(map(len, lines)) <= 32


def test_a_sentence_goes_on_right_of_its_label() -> None:
    text = "mode     NORMAL\nrefused  by 2: made for another kind of device 2"
    assert list(wrapped(text, 30)) == [
        "mode     NORMAL",
        "refused  by 2: made for",
        "         another kind of",
        "         device 2",
    ]
    assert list(wrapped("2 times are noisy: the machine is busy", 20)) == [
        "2 times are noisy:",
        "the machine is busy",
    ]


def test_a_key_stays_whole() -> None:
    key = "fwd-4x64x56x56-64x64x3x3-s1x1"
    assert list(wrapped(f"problem  {key}", 24)) == [f"problem  {key}"]


def test_sentences_fit_the_terminal(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = shell("explain", *LAYER).stdout
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    narrowed = shell("explain", *LAYER).stdout
    assert max(map(len, wide.splitlines())) > 60
    (refused,) = (line for line in wide.splitlines() if line.startswith("refused"))
    assert len(refused) > 40
    assert " ".join(narrowed[narrowed.index("refused") :].split()) == " ".join(refused.split())
    assert max(map(len, narrowed[narrowed.index("refused") :].splitlines())) <= 40


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize(
    "words",
    [
        ("find", *LAYER, "--solver", "mock-dynamic"),
        ("explain", *LAYER),
        ("explain", "--all", *LAYER),
    ],
)
def test_tables_fit_the_terminal(
    shell: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    printed = shell(*words).stdout.replace("\x1b[1m", "").replace("\x1b[0m", "")
    body = printed[printed.index("\u2500") :].splitlines()
    rows = body[: next((n for n, line in enumerate(body) if line.startswith("refused")), None)]
    assert rows
    assert max(len(line.rstrip()) for line in rows) <= width


def test_elsewhere_a_row_is_a_line(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = shell("find", *LAYER).stdout.splitlines()
    (first,) = (line for line in lines if line.startswith("mock-dynamic"))
    assert first.split()[-1] != "mock-dynamic"
    assert len(first) > 40
