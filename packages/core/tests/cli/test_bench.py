"""``convfind bench``: every layer in every direction, counted, checked."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convfind.plugins import hookimpl
from convfind.plugins.layer_reader import LayerReader
from convfind.plugins.registry import LayerReaderRegistry, SolverRegistry
from convfind.problem.text import Layer, parse_layers
from convfind.testing.solvers import MockFused

LAYERS = """# a small network
conv -n 64 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1  # x3
conv -n 64 -c 4 -H 6 -W 6 -k 8 -y 1 -x 1 -p 0 -q 0 -F 1  # x1 the last
"""


def test_every_layer_in_every_direction(shell: Any, layer_file: Callable[[str], Path]) -> None:
    path = layer_file(LAYERS)
    document = shell.json("bench", path, "-n", "2", "--direction", "all")
    layers = document["layers"]
    assert [layer["problem"].split("-2x4")[0] for layer in layers] == [
        *("fwd", "bwd-data", "bwd-weights"),
        *("fwd", "bwd-data", "bwd-weights"),
    ]
    assert [layer["count"] for layer in layers] == [3, 3, 3, 1, 1, 1]
    assert layers[3]["line"] == 3
    assert layers[3]["comment"] == "the last"
    for layer in layers:
        assert layer["solver"] == "mock-hungry"
        assert layer["gflops"] > 0
        assert layer["gbytes_per_s"] > 0
        assert layer["error"] < 1e-6
    assert document["failed"] == 0
    assert document["measured"] == sum(layer["measured"] for layer in layers) > 0


def test_totals_count_layers_as_often_as_the_network_has_them(
    shell: Any, layer_file: Callable[[str], Path]
) -> None:
    document = shell.json("bench", layer_file(LAYERS), "-n", "2")
    first, second = document["layers"]
    total = document["totals"]["fwd"]
    assert total["layers"] == 4
    assert total["time_ms"] == 3 * first["time_ms"] + second["time_ms"]


def test_the_second_time_everything_is_remembered(
    shell: Any, layer_file: Callable[[str], Path]
) -> None:
    path = layer_file(LAYERS)
    shell("bench", path, "-n", "2")
    document = shell.json("bench", path, "-n", "2")
    assert {layer["origin"] for layer in document["layers"]} == {"user-db"}
    assert (document["compiled"], document["measured"]) == (0, 0)


def test_a_wrong_result_fails_its_layer_and_the_command(
    shell: Any, layer_file: Callable[[str], Path]
) -> None:
    path = layer_file(LAYERS)
    shell("bench", path, "-n", "2")
    shell.backend.faults.result = lambda launch: True
    result = shell("bench", path, "-n", "2", code=1)
    assert result.stderr == "error: 2 of 2 layers failed\n"
    assert "failed: line 2, fwd: the result of mock-hungry is wrong" in result.stdout
    assert shell.json("bench", path, "-n", "2", code=1)["failed"] == 2


def test_a_layer_without_a_solver_does_not_stop_the_others(
    shell: Any, layer_file: Callable[[str], Path]
) -> None:
    path = layer_file(LAYERS)
    document = shell.json("bench", path, "-n", "2", "--algorithm", "fft", code=1)
    assert document["failed"] == 2
    assert all("no solver" in layer["failure"] for layer in document["layers"])


def test_a_layer_beyond_memory_does_not_stop_the_others(
    shell: Any, layer_file: Callable[[str], Path]
) -> None:
    path = layer_file(LAYERS.replace("-n 64 -c 4 -H 6 -W 6 -k 8", f"-n {2**40} -c 1024 -k 8"))
    document = shell.json("bench", path, code=1)
    assert [bool(layer["failure"]) for layer in document["layers"]] == [False, True]
    assert "no memory" in document["layers"][1]["failure"]


def test_people_get_a_table_and_totals(shell: Any, layer_file: Callable[[str], Path]) -> None:
    text = shell("bench", layer_file(LAYERS), "-n", "2").stdout
    assert "2x4x6x6 * 4x4x3x3" in text
    assert "fwd: 4 layers" in text


def test_a_line_for_all_directions_is_benched_once_in_each(
    shell: Any, layer_file: Callable[[str], Path]
) -> None:
    path = layer_file("conv -n 2 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1\n")
    assert len(shell.json("bench", path)["layers"]) == 3
    assert len(shell.json("bench", path, "--direction", "all")["layers"]) == 3
    assert len(shell.json("bench", path, "--direction", "bwd-data")["layers"]) == 1


def test_layers_are_timed_again_on_request(shell: Any, layer_file: Callable[[str], Path]) -> None:
    path = layer_file(LAYERS)
    first = shell.json("bench", path, "-n", "2")["layers"]
    assert {layer["runs"] for layer in first} == {None}
    shell.backend.faults.slowdown = 10.0
    document = shell.json("bench", path, "-n", "2", "--iterations", "7")
    for before, now in zip(first, document["layers"], strict=True):
        assert now["time_ms"] == before["time_ms"]  # the record stays
        assert now["runs"] == 7
        assert now["run_min_ms"] <= now["run_median_ms"] <= now["run_max_ms"]
        assert now["run_median_ms"] == pytest.approx(10 * before["time_ms"])
    total = sum(layer["count"] * layer["run_median_ms"] for layer in document["layers"])
    assert document["totals"]["fwd"]["time_ms"] == pytest.approx(total)
    table = shell("bench", path, "-n", "2", "--seconds", "0.001").stdout
    assert "median ms" in table


def test_times_are_compared_with_the_bound_of_given_peaks(
    shell: Any, layer_file: Callable[[str], Path]
) -> None:
    path = layer_file(LAYERS)
    words = ("bench", path, "-n", "2", "--iterations", "3")
    assert {layer["bound_share"] for layer in shell.json(*words)["layers"]} == {None}
    peaks = ("--peak-gflops", "0.001", "--peak-gbs", "1000")
    for layer in shell.json(*words, *peaks)["layers"]:
        assert layer["bound_share"] == pytest.approx(layer["gflops"] / 0.001)
    assert "of bound" in shell(*words, *peaks).stdout


def test_csv_has_the_fields_of_json(shell: Any, layer_file: Callable[[str], Path]) -> None:
    path = layer_file(LAYERS)
    layers = shell.json("bench", path, "-n", "2", "--iterations", "2")["layers"]
    text = shell("bench", path, "-n", "2", "--iterations", "2", "--csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [list(row) for row in rows] == [list(layer) for layer in layers]
    assert [row["problem"] for row in rows] == [layer["problem"] for layer in layers]
    assert "give one" in shell("bench", path, "--csv", "--json", code=2).stderr


def test_layers_get_the_epilogue_of_the_options(
    shell: Any, layer_file: Callable[[str], Path]
) -> None:
    words = ("bench", layer_file(LAYERS), "-n", "2", "--epilogue", "bias+relu")
    for layer in shell.json(*words, extra=(Fused(),))["layers"]:
        assert layer["problem"].endswith("_bias:1_act:relu")
        assert layer["solver"] == "mock-fused"
    assert "no epilogue" in shell(*words, "--direction", "bwd-weights", code=2).stderr


def test_who_has_no_reader_of_a_file_is_told_what_to_install(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    (tmp_path / "layers.jsonl").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "python -m pip install onnx" in shell("bench", tmp_path / "net.onnx", code=2).stderr
    stderr = shell("bench", tmp_path / "layers.jsonl", code=1).stderr
    assert "convfind-finddb-tools reads .jsonl files: python -m pip install" in stderr


class Fused:
    """A package with a solver for epilogues."""

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.add(MockFused())


class Reader:
    """A package that reads models."""

    @hookimpl
    def convfind_register_layer_readers(self, register: LayerReaderRegistry) -> None:
        register.add(LayerReader("onnx", self.read))

    def read(self, path: Path, batch: int | None) -> tuple[Layer, ...]:
        assert batch == 2
        return parse_layers(LAYERS, path)


def test_models_are_taken_where_layer_files_are(shell: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"")
    document = shell.json("bench", path, "-n", "2", extra=(Reader(),))
    assert [layer["count"] for layer in document["layers"]] == [3, 1]


def test_bad_files_are_refused(shell: Any, layer_file: Callable[[str], Path]) -> None:
    path = layer_file("conv -n two\n")
    assert f"{path}:1: batchsize" in shell("bench", path, code=2).stderr
    assert "at least one" in shell("bench", layer_file("# nothing\n"), code=2).stderr
    assert "does not exist" in shell("bench", "/missing/file", code=2).stderr
