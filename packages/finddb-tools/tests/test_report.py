"""``convfind report``: the numbers, the page, and the page in a browser."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from convfind.device.target import Target
from convfind.errors import FindDbError
from convfind.finddb import FindDb, FindEntry, FindRecord, QuarantineRecord
from convfind.problem import ConvProblem
from convfind_finddb_tools.entry import Entry, Measured, own_traits
from convfind_finddb_tools.report.drawing import Bar, draw_bars
from convfind_finddb_tools.report.layers import Layer, device_reports
from convfind_finddb_tools.report.occurrences import read_occurrences
from convfind_finddb_tools.report.pareto import LimitCost, limit_costs
from convfind_finddb_tools.report.scale import Scale

DATA = Path(__file__).with_name("data")
Store = Callable[..., Path]
Make = Callable[..., FindRecord]


def entry(problem: str, *results: tuple[str, str, float, int]) -> Entry:
    measured = tuple(Measured(*one) for one in results)
    return Entry("convfind", "d", problem, own_traits(problem), measured)


@pytest.fixture
def tuned(store: Store, record: Make, target: Target, problem: ConvProblem) -> Path:
    """Two layers with a GEMM and a faster solver, one with GEMM only, one without."""
    wide = problem.with_batch(2)
    store("tuned", gemm(record, 4.0), record("solver-a", 1.0, spread_ms=0.1, workspace=1 << 20))
    store("tuned", gemm(record, 3.0), record("solver-b", 2.0), problem=wide)
    store("tuned", gemm(record, 5.0), problem=problem.with_direction("backward-data"))
    folder = store("tuned", record("solver-a", 7.0), problem=problem.with_batch(3))
    with FindDb.open(folder) as database:
        failure = QuarantineRecord(
            solver="solver-<c>",
            solver_version=2,
            source_hash="",
            driver="driver 1",
            reason="wrong-result",
            detail="<script>alert(1)</script>",
        )
        database.quarantine(target, problem, failure)
    return folder


def gemm(record: Make, time_ms: float) -> FindRecord:
    made = record("the-gemm", time_ms)
    return FindRecord(
        **{**{f: getattr(made, f) for f in made.__struct_fields__}, "algorithm": "gemm"}
    )


def write_problems(path: Path, *lines: dict[str, Any] | str) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts))
    return path


def test_totals_count_each_layer_as_often_as_the_model_has_it(
    shell: Any, tuned: Path, problem: ConvProblem, tmp_path: Path
) -> None:
    problems = write_problems(
        tmp_path / "model.jsonl",
        {"problem": problem.key, "count": 2, "name": "first"},
        {"problem": problem.with_batch(2).key, "count": 10},
        "",
        {"problem": problem.key, "count": 1, "later": True},
        {"problem": problem.with_batch(99).key, "count": 1},
    )
    output = tmp_path / "r.html"
    words = ("report", tuned, "--problems", problems, "--output", output)
    (found,) = shell.json(*words)["devices"]
    assert found["before_ms"] == pytest.approx(3 * 4.0 + 10 * 3.0)
    assert found["expected_ms"] == found["after_ms"] == pytest.approx(3 * 1.0 + 10 * 2.0)
    assert found["missing"] == [problem.with_batch(99).key]
    assert found["quarantined"] == 1
    text = output.read_text()
    assert "1.83x" in text
    assert "first" in text
    assert "1.83x" in shell(*words).stdout


def test_without_a_list_every_problem_counts_once(shell: Any, tuned: Path, tmp_path: Path) -> None:
    words = ("report", tuned, "--output", tmp_path / "r.html")
    (found,) = shell.json(*words)["devices"]
    assert (found["problems"], found["compared"]) == (4, 3)
    assert found["expected_ms"] == pytest.approx(1 + 2 + 5 + 7)
    assert found["speedup"] == pytest.approx((4 + 3 + 5) / (1 + 2 + 5))
    (found,) = shell.json(*words, "--direction", "fwd", "--solver", "solver-a")["devices"]
    assert (found["problems"], found["compared"]) == (2, 0)


def test_noisy_layers_are_counted_and_not_compared(
    shell: Any, store: Store, record: Make, problem: ConvProblem, tmp_path: Path
) -> None:
    store("db", gemm(record, 4.0), record("solver-a", 1.0, spread_ms=0.1))
    busy, other = problem.with_batch(2), problem.with_batch(3)
    store("db", gemm(record, 90.0), record("solver-a", 3.0, spread_ms=2.0), problem=busy)
    noisy = record("the-gemm", 70.0, spread_ms=30.0)
    folder = store(
        "db", msgspec.structs.replace(noisy, algorithm="gemm"), record("a", 7.0), problem=other
    )
    words = ("report", folder, "--output", tmp_path / "r.html")
    (found,) = shell.json(*words)["devices"]
    assert (found["problems"], found["compared"], found["noisy"]) == (3, 1, 2)
    assert found["speedup"] == pytest.approx(4.0)
    assert found["expected_ms"] == pytest.approx(1.0 + 3.0 + 7.0)
    assert "2 of 3</b>problems were measured on a busy machine" in (tmp_path / "r.html").read_text()


def test_another_database_may_be_the_one_before(
    shell: Any, tuned: Path, store: Store, record: Make, tmp_path: Path
) -> None:
    before = store("before", record("old", 10.0))
    words = ("report", tuned, "--before", before, "--output", tmp_path / "r.html")
    (found,) = shell.json(*words)["devices"]
    assert (found["compared"], found["speedup"]) == (1, 10.0)


def test_layer_files_stand_for_the_directions_that_were_measured(
    shell: Any, tuned: Path, tmp_path: Path
) -> None:
    line = "conv -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1  # x3 stem\n"
    layers = write_problems(tmp_path / "net.txt", line)
    words = ("report", tuned, "--problems", layers, "--output", tmp_path / "r.html")
    (found,) = shell.json(*words)["devices"]
    assert found["expected_ms"] == pytest.approx(3 * (1.0 + 5.0))
    assert found["missing"] == []
    (found,) = shell.json(*words, "-n", 3)["devices"]
    assert found["expected_ms"] == pytest.approx(3 * 7.0)


def test_databases_of_miopen_are_reported_by_device(shell: Any, tmp_path: Path) -> None:
    shell("db", "import", *sorted(DATA.glob("*.fdb.txt")), "--to", tmp_path / "miopen")
    found = shell.json("report", tmp_path / "miopen", "--output", tmp_path / "r.html")["devices"]
    assert len(found) == 4
    assert all(one["speedup"] >= 1 for one in found)
    text = (tmp_path / "r.html").read_text()
    assert all(one["device"] in text for one in found)


def test_texts_of_a_database_are_no_html(shell: Any, tuned: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.html"
    shell("report", tuned, "--output", output, "--title", "<b>x</b>")
    text = output.read_text()
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "solver-&lt;c&gt;@2" in text
    assert "<b>x</b>" not in text


def test_the_page_needs_no_other_file(shell: Any, tuned: Path, tmp_path: Path) -> None:
    said = shell("report", tuned, "--output", tmp_path / "r.html").stdout.split()
    size = (tmp_path / "r.html").stat().st_size
    assert size < 1 << 20
    assert said[-1] == "KiB"
    assert float(said[-2]) == pytest.approx(size / 1024, rel=1e-3)
    text = (tmp_path / "r.html").read_text()
    head = text.split("<script>", 1)[0]
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", head)
    assert "<script src" not in text
    assert "@import" not in head


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{\n", "model.jsonl:1: "),
        ('{"problem": "nonsense", "count": 1}', "model.jsonl:1: "),
        ('{"problem": "fwd-1x1x1x1", "count": 0}', "at least 1"),
        ('{"problem": "fwd-1x1x1x1", "count": "1"}', "model.jsonl:1: "),
        ('\n\n["x"]', "model.jsonl:3: "),
        ("\n", "names no problems"),
        ("\xff", "model.jsonl:1: "),
        ('{"problem": "x", "count": 1, "z": ' + "[" * 9999 + "]" * 9999 + "}", "model.jsonl:1: "),
        ('{"problem": "fwd-' + "9" * 9999 + '", "count": 1}', "model.jsonl:1: "),
    ],
)
def test_malformed_lists_of_problems_are_one_line(
    shell: Any, tuned: Path, tmp_path: Path, content: str, message: str
) -> None:
    problems = tmp_path / "model.jsonl"
    problems.write_bytes(content.encode("latin-1"))
    output = tmp_path / "r.html"
    assert message in shell.error("report", tuned, "--problems", problems, "--output", output)
    assert not output.exists()


def test_what_cannot_be_reported_is_one_line(
    shell: Any, tuned: Path, tmp_path: Path, problem: ConvProblem
) -> None:
    output = tmp_path / "r.html"
    words = ("report", tuned, "--output", output)
    other = write_problems(
        tmp_path / "other.jsonl", {"problem": problem.with_batch(50).key, "count": 1}
    )
    assert "no records" in shell.error(*words, "--problems", other)
    assert "cannot be read" in shell.error(*words, "--problems", tmp_path / "none.jsonl")
    assert "no records" in shell.error(*words, "--dtype", "int8")
    assert not output.exists()
    assert "cannot be written" in shell.error("report", tuned, "--output", tmp_path / "no" / "r")


def test_a_page_is_small_and_speaks_of_what_is_tuned(
    shell: Any, tuned: Path, target: Target, record: Make, problem: ConvProblem, tmp_path: Path
) -> None:
    found = FindEntry(records=(gemm(record, 3.0), record("s", 1.5)))
    with FindDb.open(tuned) as database:
        for batch in range(17, 417):
            database.store(target, problem.with_batch(batch), found)
    output = tmp_path / "r.html"
    shell("report", tuned, "--output", output, "--csv", tmp_path / "r.csv")
    assert output.stat().st_size < 1_000_000
    assert "<title>Convolutions of tuned: the gain from tuning</title>" in output.read_text()
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    assert len(rows) == 4 + 400
    assert rows[0].keys() >= {"problem", "name", "count", "before_ms", "ms", "noisy"}


def test_figures_are_drawn_for_phones_too(shell: Any, tuned: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.html"
    shell("report", tuned, "--output", output)
    text = output.read_text()
    assert "svg.narrow { display: none; }" in text
    assert "svg.wide { display: none; } svg.narrow { display: block;" in text
    drawn = re.findall(r'<svg class="(wide|narrow)".*?</svg>', text, re.DOTALL)
    assert drawn == ["wide", "narrow"] * (len(drawn) // 2)
    assert len(drawn) >= 8
    for svg in re.findall(r'<svg class="narrow".*?</svg>', text, re.DOTALL):
        assert 'viewBox="0 0 360 ' in svg
        assert "<title>" not in svg
        assert max(map(float, re.findall(r' (?:cx|x)="([\d.]+)"', svg))) < 360
        for x, letters in re.findall(r'<text x="([\d.]+)"[^>]*>([^<]*)<', svg):
            assert float(x) + 6.5 * len(letters) < 380, letters


def test_names_stand_above_the_rows_of_a_phone() -> None:
    text = draw_bars([("a" * 70, (Bar(2.0, "red", "hint", "2x"),))], "ms " * 30, {})
    wide, narrow = text.split("</svg>")[:2]
    assert f'<text class="end" x="452" y="14.5">{"a" * 53}...<title>{"a" * 70}</title>' in wide
    assert f'<text x="4.0" y="17.0">{"a" * 43}...</text>' in narrow
    assert 'y="21.0" width="286.0"' in narrow
    assert narrow.count(">ms ms") == 2  # lines of the title of the axis
    assert wide.count(">ms ms") == 1


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((1.05, 1.2), ["1", "1.1", "1.2", "1.3"]),
        ((3.0, 7.0), ["3", "4", "5", "6", "7"]),
        ((2.0,), ["1.9", "2", "2.1", "2.2"]),
        ((1.0, 90.0), ["1", "2", "5", "10", "20", "50"]),
        ((1.0, 90_000.0), ["1", "10", "100", "1,000", "10,000"]),
    ],
)
def test_logarithmic_axes_have_ticks_however_short(
    values: tuple[float, ...], ticks: list[str]
) -> None:
    scale = Scale.logarithmic(values, 0.0, 100.0)
    assert [text for _, text in scale.ticks] == ticks
    places = [scale.at(mark) for mark, _ in scale.ticks]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 100


def test_the_headline_compares_the_same_layers(shell: Any, tuned: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.html"
    shell("report", tuned, "--output", output)
    text = output.read_text()
    assert "<b>1.50x</b>as fast: 12.00 ms before, 8.000 ms after, in 3 layers" in text
    assert "<b>15.00 ms</b>expected time of all 4 layers, one pass, 7.000 ms of it in" in text


def test_networks_are_compared_each_for_itself(
    shell: Any, tuned: Path, problem: ConvProblem, tmp_path: Path
) -> None:
    lines = [
        {"source": "a.onnx", "problem": problem.key, "count": 2, "name": "conv1"},
        {"source": "b.onnx", "problem": problem.key, "count": 1},
        {"source": "b.onnx", "problem": problem.with_batch(2).key, "count": 1},
    ]
    write_problems(tuned / "workload.jsonl", *lines)
    shell("report", tuned, "--output", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    section = text.partition("<h3>By network</h3>")[2].partition("</section>")[0]
    assert re.findall(r"<td>(.*?)</td>|>([\d.]+x)<", section) == [
        ("a.onnx", ""),
        ("", "4.00x"),
        ("b.onnx", ""),
        ("", "2.33x"),
    ]
    assert "conv1 (3x)" in text


def test_tuning_leaves_a_list_beside_the_database(
    shell: Any, tuned: Path, problem: ConvProblem, tmp_path: Path
) -> None:
    line = {"source": "net", "problem": problem.key, "count": 4, "labels": ["conv1", "conv2"]}
    write_problems(tuned / "workload.jsonl", line)
    (found,) = shell.json("report", tuned, "--output", tmp_path / "r.html")["devices"]
    assert found["expected_ms"] == pytest.approx(4.0)
    assert "conv1 and 1 more" in (tmp_path / "r.html").read_text()
    with pytest.raises(FindDbError, match="names no problems"):
        read_occurrences(write_problems(tmp_path / "empty.jsonl", ""))


def test_a_workspace_limit_costs_what_the_next_best_solver_takes() -> None:
    first = entry("a", ("fast", "direct", 1.0, 100), ("slow", "gemm", 4.0, 0))
    second = entry("b", ("big", "fft", 2.0, 1000), ("small", "gemm", 3.0, 50))
    (report,) = device_reports([first, second], None, None)
    assert limit_costs(report.layers) == [
        LimitCost(0, 7.0, 1),  # the second one needs 50 whatever the limit
        LimitCost(50, 7.0, 0),
        LimitCost(100, 4.0, 0),
        LimitCost(1000, 3.0, 0),
    ]


def test_margin_and_winner_are_between_solvers() -> None:
    one = entry("a", ("x", "direct", 3.0, 0), ("x", "direct", 1.0, 9), ("y", "fft", 2.0, 0))
    (report,) = device_reports([one, entry("b", ("z", "gemm", 0.0, 0))], None, None)
    (layer,) = report.layers
    assert isinstance(layer, Layer)
    assert (layer.winner.solver, layer.winner.time_ms) == ("x", 1.0)
    assert layer.margin == 2.0
    assert report.untimed == 1


# -- in a browser -------------------------------------------------------------------------------

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CONVFIND_REQUIRE_CHROMIUM"),
    reason="no chromium, chromium-browser or google-chrome on the path",
)


def browse(page: Path, folder: Path, height: int = 3000) -> tuple[Path, list[str], str]:
    """Look at a page; returns the screenshot, what went to the console, and the final HTML."""
    assert CHROMIUM is not None, "CONVFIND_REQUIRE_CHROMIUM is set and there is no Chromium"
    shot = folder / "shot.png"
    words = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}"),
        *(f"--window-size=1280,{height}", "--virtual-time-budget=30000"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", page.resolve().as_uri()),
    ]
    look = [*words[:-1], f"--screenshot={shot}", words[-1]]
    ran = subprocess.run(look, check=True, capture_output=True, text=True, timeout=300)
    read = [*words[:-1], "--dump-dom", words[-1]]
    dom = subprocess.run(read, check=True, capture_output=True, text=True, timeout=300).stdout
    console = [line for line in ran.stderr.splitlines() if ":CONSOLE" in line]
    return shot, console, dom


def colors_of(picture: Path) -> set[bytes]:
    """The colours in a PNG of 8 bits a channel."""
    data = picture.read_bytes()
    width, height, depth, kind = struct.unpack_from(">IIBB", data, 16)
    assert (depth, kind) in ((8, 2), (8, 6))
    size = 3 if kind == 2 else 4
    packed, place = b"", 8
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += 12 + length
    rows = zlib.decompress(packed)
    found: set[bytes] = set()
    before = bytearray(size * width)
    for start in range(0, height * (size * width + 1), size * width + 1):
        row = bytearray(rows[start + 1 : start + 1 + size * width])
        _unfilter(row, before, rows[start], size)
        found.update(bytes(row[at : at + 3]) for at in range(0, len(row), size))
        before = row
    return found


def _unfilter(row: bytearray, above: bytearray, kind: int, size: int) -> None:
    for at in range(len(row)):
        left = row[at - size] if at >= size else 0
        corner = above[at - size] if at >= size else 0
        up = above[at]
        if kind == 1:
            row[at] = (row[at] + left) & 255
        elif kind == 2:
            row[at] = (row[at] + up) & 255
        elif kind == 3:
            row[at] = (row[at] + (left + up) // 2) & 255
        elif kind == 4:
            guess = left + up - corner
            near = min((abs(guess - one), n, one) for n, one in enumerate((left, up, corner)))
            row[at] = (row[at] + near[2]) & 255


@needs_chromium
def test_a_browser_shows_the_page(shell: Any, tuned: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    shell("report", tuned, "--output", output)
    shot, console, dom = browse(output, tmp_path)
    assert console == []
    assert dom.count("<figure>") == 6
    assert "solver-b" in dom
    colors = colors_of(shot)
    for color in ("0072b2", "b4bcc6", "cc79a7"):  # after, before, direct
        assert bytes.fromhex(color) in colors


@needs_chromium
def test_a_browser_would_tell_of_errors(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<script>missing();</script><script>console.error('bad')</script>")
    shot, console, _ = browse(page, tmp_path, 200)
    assert len(console) == 2
    assert len(colors_of(shot)) == 1  # an empty page
