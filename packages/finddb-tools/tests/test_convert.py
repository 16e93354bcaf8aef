"""Converting between the forms of a database, MIOpen's perf-db, and filters on what is copied."""

from __future__ import annotations

import bz2
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convfind.device.target import Target
from convfind.finddb import FindDb, FindRecord, QuarantineRecord
from convfind.problem import ConvProblem
from convfind.problem.text import parse_miopen_key
from convfind_finddb_tools.joining import join_foreign_configs
from convfind_finddb_tools.perf_text import perf_key

DATA = Path(__file__).with_name("data")
Store = Callable[..., Path]
Make = Callable[..., FindRecord]

PERF_KEY = "2x64x56x56x1x3x3x1x64x16x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
PERF = f"{PERF_KEY}=ConvAsm3x3U:7,8,4;ConvHipIgemm:bwd,nhwc,1[2] Kernel<256, 128>\n"


def test_every_form_converts_into_every_other(shell: Any, tmp_path: Path) -> None:
    source = DATA / "gfx906_60.OpenCL.fdb.txt"
    text = tmp_path / source.name
    counted = shell.json("db", "convert", source, text)
    assert len(counted["refused"]) == 8
    assert b"=miopenConvolution" not in text.read_bytes()  # version 2
    chain = [text]
    for name in (
        *(
            "folder",
            "one.jsonl",
            "one.lmdb",
            "two.jsonl.bz2",
            "again",
            "x/gfx906_60.OpenCL.fdb.txt",
        ),
        "gfx906_60.OpenCL.fdb.txt.bz2",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        done = shell.json("db", "convert", chain[-1], tmp_path / name)
        assert done["written"] == counted["written"]
        chain.append(tmp_path / name)
    assert chain[-2].read_bytes() == text.read_bytes()
    assert bz2.decompress(chain[-1].read_bytes()) == text.read_bytes()
    assert "one.jsonl" in shell("db", "convert", tmp_path / "again", tmp_path / "one.jsonl").stdout


def test_convert_writes_no_database_that_exists(
    shell: Any, store: Store, record: Make, tmp_path: Path
) -> None:
    first, second = store("a", record()), store("b", record("other"))
    before = (second / "finddb.lmdb").read_bytes()
    assert "exists already" in shell.error("db", "convert", first, second)
    assert (second / "finddb.lmdb").read_bytes() == before
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{\n")
    assert "holds no entry" in shell.error("db", "convert", broken, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert "does not exist" in shell.error("db", "convert", tmp_path / "no.jsonl", tmp_path / "new")


# -- perf-db --------------------------------------------------------------------------------------


def test_tuned_configs_of_miopen_come_and_go_as_they_are(shell: Any, tmp_path: Path) -> None:
    file, out = tmp_path / "gfx90a68.db.txt", tmp_path / "out.db.txt"
    file.write_text(PERF)
    (report,) = shell.json("db", "import", file, "--to", tmp_path / "db")["files"]
    assert (report["added"], report["source"]) == (1, "miopen|any|gfx90a68|gfx90a|104")
    shell("db", "export", tmp_path / "db", "--format", "miopen-perf", "--output", out)
    assert out.read_text() == PERF
    shell("db", "convert", tmp_path / "db", tmp_path / "all.jsonl")
    shell("db", "convert", tmp_path / "all.jsonl", tmp_path / "again")
    shell("db", "merge", tmp_path / "db", "--to", tmp_path / "again")
    shell("db", "convert", tmp_path / "again", tmp_path / "gfx90a68.2.db.txt")
    assert (tmp_path / "gfx90a68.2.db.txt").read_text() == PERF
    shell("db", "repair", tmp_path / "db", "--to", tmp_path / "saved")
    shell("db", "convert", tmp_path / "saved", tmp_path / "saved.db.txt")
    assert (tmp_path / "saved.db.txt").read_text() == PERF
    assert "no records of MIOpen" in shell.error(
        "db", "export", tmp_path / "db", "--format", "miopen", "--output", out
    )


@pytest.mark.parametrize(
    "asked",
    [
        PERF_KEY,
        "fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32",
        "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F",
    ],
)
def test_show_finds_tuned_configs_by_any_name(shell: Any, tmp_path: Path, asked: str) -> None:
    file = tmp_path / "gfx90a68.db.txt"
    file.write_text(PERF)
    shell("db", "import", file, "--to", tmp_path / "db")
    (found,) = shell.json("db", "show", asked, tmp_path / "db")["found"]
    assert found["tuned"][0] == {"solver": "ConvAsm3x3U", "config": "7,8,4"}
    assert "ConvHipIgemm" in shell("db", "show", asked, tmp_path / "db").stdout
    other = PERF_KEY.replace("2x64x", "2x32x")
    assert "knows nothing" in shell.error("db", "show", other, tmp_path / "db")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no record", "no '='"),
        (PERF.replace("2x64x", "64x", 1), "is not 21 numbers"),
        (PERF.replace("xF=", "xX="), "is not 21 numbers"),
        (PERF.replace(":7,8,4", ""), "is not solver:config"),
        (PERF.replace("7,8,4", "7:8"), "is not solver:config"),
        (PERF.replace("7,8,4", "\0"), "is not solver:config"),
        (f"{PERF_KEY}=", "is not solver:config"),
    ],
)
def test_malformed_lines_of_a_perf_db_are_listed(
    shell: Any, tmp_path: Path, line: str, reason: str
) -> None:
    file = tmp_path / "gfx906_60.db.txt"
    file.write_text(f"{line.rstrip()}\n{PERF}")
    (report,) = shell.json("db", "import", file, "--to", tmp_path / "db")["files"]
    assert report["added"] == 1
    assert [refused["line"] for refused in report["refused"]] == [1]
    assert reason in report["refused"][0]["reason"]


def test_perf_dbs_have_a_device_and_no_backend(shell: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(PERF)
    words = ("db", "import", file, "--to", tmp_path / "db", "--kind", "perf-db")
    assert "with --device" in shell.error(*words)
    (report,) = shell.json(*words, "--device", "gfx906_60")["files"]
    assert report["source"] == "miopen|any|gfx906_60|gfx906|60"
    (report,) = shell.json(*words, "--device", "gfx906_60.HIP")["files"]
    assert report["unchanged"] == 1
    find = ("db", "import", DATA / "gfx90a68.HIP.fdb.txt", "--to", tmp_path / "db")
    assert "not one of MIOpen's names" in shell.error(*find, "--device", "gfx906_60")


def test_keys_of_three_dimensions_have_the_depth_last() -> None:
    problem = parse_miopen_key("8-3-14-15-2x3x4-16-4-14-14-5-1x1x1-1x1x1-1x1x1-0-NCDHW-FP16-F")
    expected = "3x8x14x15x3x3x4x2x16x5x1x1x1x1x1x1x1x1x1x0x1xNCDHWxFP16xF"
    assert perf_key(problem) == expected
    backward = ConvProblem.backward_data((2, 3, 9, 9), (6, 3, 3, 3), stride=2)
    assert perf_key(backward) == "2x6x4x4x1x3x3x1x3x2x0x0x0x2x2x0x1x1x0x0x1xNCHWxFP32xB"


CONFIGS = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from(["1", "2,3"])), min_size=1, max_size=4
).map(lambda pairs: ";".join(f"{solver}:{text}" for solver, text in pairs).encode())


@given(CONFIGS, CONFIGS, CONFIGS)
def test_joining_tuned_configs_of_miopen_takes_any_order(a: bytes, b: bytes, c: bytes) -> None:
    def join(*texts: bytes) -> bytes:
        first, *rest = texts
        for text in rest:
            first = join_foreign_configs(first, text)
        return first

    assert join(a, b) == join(b, a) or a == b
    assert join(join(a, b), c) == join(a, join(b, c)) or len({a, b, c}) < 3
    assert join(join(a, b), join(a, b)) == join(a, b)


# -- filters ----------------------------------------------------------------------------------


@pytest.fixture
def mixed(
    shell: Any, store: Store, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> Path:
    """A database of everything: ours and MIOpen's, records, configs and quarantine."""
    folder = store("mixed", record("a", 1.0, created=100), record("b", 2.0))
    store("mixed", record("a", 3.0), problem=problem.with_direction("backward-data"))
    with FindDb.open(folder) as database:
        failure = QuarantineRecord(
            solver="c", solver_version=1, source_hash="", driver="driver 1", reason="crashed"
        )
        database.quarantine(target, problem, failure)
    perf = tmp_path / "gfx906_60.db.txt"
    perf.write_text(PERF)
    shell("db", "import", perf, DATA / "gfx942130.HIP.fdb.txt", "--to", folder)
    return folder


@pytest.mark.parametrize(
    ("options", "tables"),
    [
        (("--origin", "convfind"), {"find": 2, "quarantine": 1}),
        (("--device", "test device"), {"find": 2, "quarantine": 1}),
        (("--device", "gfx906"), {"foreign-config": 1}),
        (("--origin", "convfind", "--direction", "fwd"), {"find": 1, "quarantine": 1}),
        (("--device", "Test", "--solver", "b"), {"find": 1}),
        (("--older-than", "52w"), {"find": 1, "quarantine": 1}),
        (("--newer-than", "1d"), {"find": 2}),
        (("--stale",), {}),
        (("--origin", "convfind", "--algorithm", "direct"), {"find": 2}),
        (("--device", "gfx906", "--solver", "ConvAsm3x3U"), {"foreign-config": 1}),
        (("--device", "gfx906", "--dtype", "float16"), {}),
    ],
)
def test_export_and_merge_take_what_the_filters_choose(
    shell: Any, mixed: Path, tmp_path: Path, options: tuple[str, ...], tables: dict[str, int]
) -> None:
    text = tmp_path / "out.jsonl"
    words = ("db", "export", mixed, "--format", "jsonl", "--output", text)
    written = shell.json(*words, *options)["written"]
    lines = [json.loads(line) for line in text.read_text().splitlines()]
    counts = {table: sum(line["table"] == table for line in lines) for table in tables}
    assert counts == tables
    assert written == len(lines) == sum(tables.values())
    shell("db", "merge", mixed, "--to", tmp_path / "part", *options)
    shell(
        "db", "export", tmp_path / "part", "--format", "jsonl", "--output", tmp_path / "part.jsonl"
    )
    assert (tmp_path / "part.jsonl").read_bytes() == text.read_bytes()


def test_results_are_filtered_within_a_problem(shell: Any, mixed: Path, tmp_path: Path) -> None:
    text = tmp_path / "out.txt"
    words = ("db", "export", mixed, "--format", "miopen", "--output", text, "--algorithm", "gemm")
    shell(*words)
    for line in text.read_text().splitlines():
        assert all("AlgoGEMM" in entry for entry in line.partition("=")[2].split(";"))


def test_show_takes_filters(shell: Any, mixed: Path, problem: ConvProblem) -> None:
    every = shell.json("db", "show", problem.key, mixed)["found"]
    assert len(every) == 2  # ours, and the perf-db's
    (found,) = shell.json("db", "show", problem.key, mixed, "--solver", "b")["found"]
    assert [result["solver"] for result in found["results"]] == ["b"]
    assert "that the filters choose" in shell.error(
        "db", "show", problem.key, mixed, "--solver", "z"
    )
