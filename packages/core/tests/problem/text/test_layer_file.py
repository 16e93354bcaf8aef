"""Layer files: counts, comments, and errors that name file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from convfind.errors import ProblemError
from convfind.problem.text import Layer, read_layer_file
from convfind.types import Direction


def write(path: Path, text: str) -> Path:
    file = path / "layers.txt"
    file.write_text(text, encoding="utf-8")
    return file


def test_counts_comments_and_line_numbers(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "# a network\n\n"
        "conv -n 1 -F 1  # x3\n"
        "  # indented comment\n"
        "MIOpenDriver conv -n 2 -F 1 # x12 the stem\n"
        "conv -n 3 -F 1 # xception block\n"
        "conv -_ 3 -# 2 -n 4 -F 1\n",
    )
    layers = read_layer_file(file)
    assert [(layer.problem.x_shape[0], layer.count, layer.comment) for layer in layers] == [
        (1, 3, ""),
        (2, 12, "the stem"),
        (3, 1, "xception block"),
        (4, 1, ""),
    ]
    assert [layer.line_number for layer in layers] == [3, 5, 6, 7]
    assert layers[3].problem.stride == (2, 1, 1)


def test_a_line_for_several_directions_gives_as_many_layers(tmp_path: Path) -> None:
    layers = read_layer_file(write(tmp_path, "conv -F 0 # x2\n"))
    assert [layer.problem.direction for layer in layers] == list(Direction)
    assert {(layer.count, layer.line_number) for layer in layers} == {(2, 1)}
    assert isinstance(layers[0], Layer)


def test_an_error_names_file_and_line(tmp_path: Path) -> None:
    file = write(tmp_path, "conv -n 1\nconv -n zero\n")
    with pytest.raises(ProblemError) as caught:
        read_layer_file(file)
    assert f"{file}:2: batchsize: 'zero' is not possible; allowed: a whole number" in str(
        caught.value
    )


def test_a_file_without_layers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="at least one MIOpenDriver line"):
        read_layer_file(write(tmp_path, "# nothing\n"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"missing\.txt.*readable text file"):
        read_layer_file(tmp_path / "missing.txt")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "layers.bin"
    file.write_bytes(b"\xff\xfe\x00conv")
    with pytest.raises(ProblemError, match="readable text file"):
        read_layer_file(file)
