"""Whatever a text says, reading it gives problems or a `ProblemError` of a bounded length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convfind.errors import ProblemError, SettingsError
from convfind.problem import ConvProblem
from convfind.problem.text import (
    parse_driver_line,
    parse_key,
    parse_layers,
    parse_miopen_key,
    parse_network_config,
    parse_problem,
    read_layer_file,
    read_text,
)
from convfind.settings import VARIABLES, Settings

CONFIG = "bwd-data-1x3x9x9-8x3x3x3-s2x2-p0x0-d1x1-g1-NHWC-float16_pe:1x1_beta:1.0"
KEY = "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F_g2"
LINE = "MIOpenDriver conv -n 4 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1 # x3 layer"
PARSERS = [
    parse_driver_line,
    parse_key,
    parse_miopen_key,
    parse_network_config,
    parse_problem,
    lambda text: parse_layers(text, "layers.txt"),
]
_LONGEST = 1500


def _broken(text: str) -> st.SearchStrategy[str]:
    """A text with a stretch of it replaced, moved or repeated."""
    piece = st.text(max_size=6) | st.sampled_from(
        ["0", "-1", "9" * 5000, "1" * 14, "x", "-", "_", ":", " ", "\n", "#", "\ud800", "\0", "nan"]
    )
    place = st.integers(0, len(text))
    return st.builds(
        lambda first, last, new, times: text[:first] + new * times + text[last:],
        place,
        place,
        piece,
        st.integers(1, 3),
    )


TEXTS = st.text() | st.sampled_from([CONFIG, KEY, LINE]).flatmap(_broken)


def _problems_or_refusal(read: Callable[[Any], Any], text: object) -> None:
    try:
        read(text)
    except ProblemError as error:
        message = str(error)
        assert len(message) < _LONGEST, message


@pytest.mark.parametrize("parse", PARSERS)
@given(text=TEXTS)
@settings(max_examples=60)
def test_any_text_is_read_or_refused(parse: Callable[[str], Any], text: str) -> None:
    _problems_or_refusal(parse, text)


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("text", [CONFIG, KEY, LINE])
@pytest.mark.parametrize("piece", ["9", "x", "1x", "-1", "_", "_beta:1", " -n", " -n 4", "/", "#"])
def test_a_text_without_end_is_not_repeated_in_the_message(
    parse: Callable[[str], Any], text: str, piece: str
) -> None:
    _problems_or_refusal(parse, text + piece * 100_000)
    _problems_or_refusal(parse, piece * 100_000 + text)


@pytest.mark.parametrize("value", [None, 5, b"conv -n 4", ("conv", "-n", "4"), CONFIG.encode()])
def test_what_is_no_text_is_refused(value: Any) -> None:
    for read in (ConvProblem.from_key, ConvProblem.from_driver, parse_problem):
        with pytest.raises(ProblemError, match="a text"):
            read(value)


@given(content=st.binary() | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_of_a_file_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "layers.txt"
    file.write_bytes(content)
    _problems_or_refusal(read_layer_file, file)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16"], ids=["plain", "mark", "PowerShell"]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_marks_and_line_ends_of_editors_are_no_text(
    tmp_path: Path, encoding: str, end: str
) -> None:
    file = tmp_path / "layers.txt"
    file.write_bytes(f"{LINE}{end}# more{end}{LINE}{end}".encode(encoding))
    layers = read_layer_file(file)
    assert [(layer.count, layer.comment, layer.line_number) for layer in layers] == [
        (3, "layer", 1),
        (3, "layer", 3),
    ]


def test_a_file_that_is_no_text_is_refused_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "layers.txt"
    file.write_bytes(b"conv \xff")
    with pytest.raises(ProblemError, match=r"utf-8 .*byte 5"):
        read_text(file, "layer file")


@given(
    name=st.sampled_from([name for variable in VARIABLES for name in variable.names]),
    text=st.text() | st.sampled_from(["~nobody-here", "9" * 5000, "1e999", "nan", "-0", "\udce9"]),
)
def test_any_text_of_a_variable_is_a_setting_or_refused(name: str, text: str) -> None:
    try:
        Settings.from_environment({name: text})
    except SettingsError as error:
        named, message = error.name, str(error)
        assert named == name
        assert len(message) < _LONGEST
