"""Sources of any content and kind: problems, or one error that says what is wrong; never more."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convfind.errors import ProblemError
from convfind_finddb_tools.tune.sources import read_source
from convfind_finddb_tools.tune.workload import Reading

LINE = "conv -n 1 -c 8 -H 9 -W 9 -k 8 -F 1"
LOG = f"MIOpen(HIP): Command ./bin/MIOpenDriver {LINE} -t 1"
KEY = "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F=a:1.0,0,b"
JSON = '{"problem": "conv -n 1 -c 8 -k 8 -F 3", "count": 5, "name": "head"}'
_LONGEST = 2000


def _problems_or_refusal(path: Path) -> Reading | None:
    try:
        return read_source(path, {"batch": 2}, 1)
    except ProblemError as error:
        message = str(error)
        assert len(message) < _LONGEST, message
        return None


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
@given(
    first=st.sampled_from([LINE, LOG, KEY, JSON, ""]),
    more=st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")),
    place=st.integers(0, 80),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused(
    tmp_path: Path, name: str, first: str, more: bytes, place: int
) -> None:
    path = tmp_path / name
    path.write_bytes(first[:place].encode() + more + first[place:].encode())
    _problems_or_refusal(path)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
@pytest.mark.parametrize("line", [LINE, LOG, KEY, JSON, ""])
@pytest.mark.parametrize("piece", [b"9", b" -n 4", b"[", b"\xff", b"MIOpenDriver ", b" conv"])
def test_a_line_without_end_is_not_repeated_in_the_message(
    tmp_path: Path, name: str, line: str, piece: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(line.encode() + piece * 100_000 + b"\n" + line.encode())
    _problems_or_refusal(path)


@pytest.mark.parametrize(
    ("name", "line"), [("a.txt", LINE), ("a.log", LOG), ("k.txt", KEY), ("a.jsonl", JSON)]
)
def test_marks_and_line_ends_of_editors_are_no_text(tmp_path: Path, name: str, line: str) -> None:
    plain, marked = tmp_path / name, tmp_path / f"marked-{name}"
    plain.write_bytes(line.encode())
    marked.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n\r\n")
    assert read_source(marked, {}, None).found == read_source(plain, {}, None).found


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize(("name", "line"), [("a.txt", LINE), ("a.log", LOG), ("a.jsonl", JSON)])
def test_a_pipe_is_read_once(tmp_path: Path, name: str, line: str) -> None:
    pipe, plain = tmp_path / name, tmp_path / f"plain-{name}"
    os.mkfifo(pipe)
    plain.write_text(line)
    writer = threading.Thread(target=pipe.write_text, args=(line,))
    writer.start()
    found = read_source(pipe, {}, None).found
    writer.join()
    assert found == read_source(plain, {}, None).found


# -- ONNX ---------------------------------------------------------------------------------------


def _model(
    path: Path,
    inputs: list[str],
    kind: str = "Conv",
    w: tuple[int, ...] = (8, 3, 3, 3),
    **given: Any,
) -> Path:
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed")
    make, tensors = onnx.helper, onnx.TensorProto
    node = make.make_node(kind, inputs, ["y"], name="node", **given)
    weights = onnx.TensorProto(name="w", data_type=tensors.FLOAT, dims=w)
    x = make.make_tensor_value_info("x", tensors.FLOAT, [1, 3, 9, 9])
    y = make.make_tensor_value_info("y", tensors.FLOAT, None)
    graph = make.make_graph([node], "net", [x], [y], [weights])
    path.write_bytes(make.make_model(graph).SerializeToString())
    return path


@pytest.mark.parametrize(
    ("inputs", "given", "message"),
    [
        ([], {}, "inputs|valid ONNX model"),
        (["x"], {}, "inputs"),
        (["x", ""], {}, "inputs"),
        (["x", "nothing"], {}, "node node: nothing"),
        (["x", "w"], {"auto_pad": "SAME"}, "auto_pad: 'SAME'.*SAME_UPPER"),
        (["x", "w"], {"auto_pad": b"\xff"}, "auto_pad"),
        (["x", "w"], {"pads": [1, 1]}, "pads: .*4 numbers"),
        (["x", "w"], {"pads": [1, 1, 1]}, "pads: .*4 numbers"),
        (["x", "w"], {"pads": [1, 1, 1, -1]}, "none negative"),
        (["x", "w"], {"strides": [1]}, "strides: .*2 numbers"),
        (["x", "w"], {"strides": [0, 1], "auto_pad": "SAME_UPPER"}, "strides"),
        (["x", "w"], {"dilations": [1, 1, 1], "auto_pad": "SAME_LOWER"}, "dilations"),
        (["x", "w"], {"group": 0}, "groups: 0"),
        (["x", "w"], {"w": (8, 3, 3)}, "shapes"),
        (["x", "w"], {"w": (8,), "auto_pad": "SAME_UPPER"}, "shapes"),
    ],
)
def test_a_malformed_convolution_is_refused_by_name(
    tmp_path: Path, inputs: list[str], given: dict[str, Any], message: str
) -> None:
    path = _model(tmp_path / "net.onnx", inputs, **given)
    with pytest.raises(ProblemError, match=message) as caught:
        read_source(path, {}, None)
    assert len(str(caught.value)) < _LONGEST


def test_a_good_model_with_its_end_cut_off_is_refused(tmp_path: Path) -> None:
    path = _model(tmp_path / "net.onnx", ["x", "w"])
    (found,) = read_source(path, {}, None).found
    assert found.problem.w_shape == (8, 3, 3, 3)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        _problems_or_refusal(path)


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_model_with_any_byte_changed_is_read_or_refused(tmp_path: Path, data: Any) -> None:
    path = _model(tmp_path / "net.onnx", ["x", "w"], pads=[1, 1, 1, 1], strides=[2, 2])
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    _problems_or_refusal(path)
