"""MIOpen's text into a database and back."""

from __future__ import annotations

import bz2
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convfind.device.target import Target
from convfind.errors import FindDbError
from convfind.finddb import FindDb
from convfind.problem import ConvProblem
from convfind.problem.text import format_miopen_key
from convfind_finddb_tools import text_blocks
from convfind_finddb_tools.foreign import ForeignDevice
from convfind_finddb_tools.import_miopen import import_miopen

DATA = Path(__file__).with_name("data")
SAMPLES = sorted(DATA.glob("*.fdb.txt"))
MALFORMED = {"gfx906_60.OpenCL.fdb.txt": 8}
VERSION_2 = [path for path in SAMPLES if path.name.startswith(("gfx9421", "gfx90a"))]
GOOD = "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F=A:1.5,0,miopenConvolutionFwdAlgoGEMM"

Records = dict[str, dict[str, tuple[float, int, str]]]


def as_miopen_reads(text: str) -> Records:
    """MIOpen's own rules for version 1 and 2: split at =, ;, : and commas; the first id counts."""
    records: Records = {}
    for line in text.splitlines():
        key, _, content = line.partition("=")
        entries: dict[str, tuple[float, int, str]] = {}
        for pair in content.split(";"):
            name, _, values = pair.partition(":")
            fields = values.split(",")
            if name.startswith("miopenConvolution"):
                entries.setdefault(fields[0], (float(fields[1]), int(fields[2]), name))
            else:
                time, workspace, algorithm = fields
                entries.setdefault(name, (float(time), int(workspace), algorithm))
        records.setdefault(key, entries)
    return records


def export(shell: Any, database: Path, output: Path) -> str:
    shell("db", "export", database, "--format", "miopen", "--output", output)
    return output.read_text()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_line_is_imported_or_listed(shell: Any, tmp_path: Path, sample: Path) -> None:
    (report,) = shell.json("db", "import", sample, "--to", tmp_path / "db")["files"]
    lines = sample.read_text().splitlines()
    assert report["lines"] == len(lines)
    assert report["added"] + len(report["refused"]) == len(lines)
    assert len(report["refused"]) == MALFORMED.get(sample.name, 0)
    for refused in report["refused"]:
        assert "mixes 2-D and 3-D" in refused["reason"]
        assert "-1x1x1-" in lines[refused["line"] - 1]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_export_says_what_miopen_would_read(shell: Any, tmp_path: Path, sample: Path) -> None:
    (report,) = shell.json("db", "import", sample, "--to", tmp_path / "db")["files"]
    text = export(shell, tmp_path / "db", tmp_path / sample.name)
    bad = {line["line"] for line in report["refused"]}
    given = [line for n, line in enumerate(sample.read_text().splitlines(), 1) if n not in bad]
    assert as_miopen_reads(text) == as_miopen_reads("\n".join(given))

    second = tmp_path / "again"
    shell("db", "import", tmp_path / sample.name, "--to", second)
    assert export(shell, second, tmp_path / "second.txt") == text
    counts = shell.json("db", "diff", tmp_path / "db", second)
    assert not any(counts[name] for name in ("only_in_a", "only_in_b", "changed"))


@pytest.mark.parametrize("sample", VERSION_2, ids=lambda path: path.name)
def test_version_2_comes_out_byte_for_byte(shell: Any, tmp_path: Path, sample: Path) -> None:
    shell("db", "import", sample, "--to", tmp_path / "db")
    text = export(shell, tmp_path / "db", tmp_path / "out.txt")
    assert sorted(text.splitlines()) == sorted(sample.read_text().splitlines())


def test_compressed_and_plain_files_are_the_same(shell: Any, tmp_path: Path) -> None:
    plain = DATA / "gfx942130.HIP.fdb.txt"
    packed = tmp_path / "gfx942130.HIP.fdb.txt.bz2"
    text = plain.read_bytes()
    half = text.index(b"\n", len(text) // 2) - 7  # two streams, cut within a line
    packed.write_bytes(bz2.compress(text[:half]) + bz2.compress(text[half:]))
    shell("db", "import", plain, "--to", tmp_path / "db")
    (report,) = shell.json("db", "import", packed, "--to", tmp_path / "db")["files"]
    assert report["unchanged"] == report["lines"] == text.count(b"\n")


@pytest.mark.parametrize("pack", [bytes, bz2.compress], ids=["plain", "bz2"])
def test_blocks_of_lines_do_not_show(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    sample = DATA / "gfx906_60.OpenCL.fdb.txt"
    file = tmp_path / sample.name
    file.write_bytes(pack(sample.read_bytes()))
    (whole,) = shell.json("db", "import", file, "--to", tmp_path / "whole")["files"]
    monkeypatch.setattr(text_blocks, "_BLOCK", 2048)
    (pieces,) = shell.json("db", "import", file, "--to", tmp_path / "pieces")["files"]
    assert pieces == whole
    found = shell.json("db", "diff", tmp_path / "whole", tmp_path / "pieces")
    assert not any(found[name] for name in ("only_in_a", "only_in_b", "changed"))


def test_what_is_there_stays_unless_replaced(shell: Any, tmp_path: Path) -> None:
    file, database = tmp_path / "gfx90a68.HIP.fdb.txt", tmp_path / "db"
    file.write_text(f"{GOOD}\n")
    shell("db", "import", file, "--to", database)
    file.write_text(GOOD.replace("1.5", "2.5") + "\n\n" + GOOD + "\n")
    (report,) = shell.json("db", "import", file, "--to", database)["files"]
    assert (report["lines"], report["added"], report["unchanged"]) == (2, 0, 1)
    assert [line["line"] for line in report["refused"]] == [1]
    assert "another entry" in report["refused"][0]["reason"]
    assert "A:1.5," in export(shell, database, tmp_path / "out.txt")

    (report,) = shell.json("db", "import", file, "--to", database, "--replace")["files"]
    assert report["added"] == 1
    assert [line["line"] for line in report["refused"]] == [3]
    assert "A:2.5," in export(shell, database, tmp_path / "out.txt")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no record", "no '='"),
        (GOOD.replace("64-56-56-3x3", "64-56-3x3"), "key '64-56-3x3-"),
        (GOOD.replace("-F=", "-X="), "key "),
        (GOOD.replace("A:", "A;"), "entry 'A'"),
        (GOOD.replace("1.5", "nan"), "entry 'A:nan,"),
        (GOOD.replace("1.5", "-1.5"), "entry 'A:-1.5,"),
        (GOOD.replace("1.5", "1e999"), "entry 'A:1e999,"),
        (GOOD.replace(",0,", ",-1,"), "entry 'A:1.5,-1,"),
        (GOOD.replace("miopenConvolutionFwdAlgoGEMM", "gemm"), "entry 'A:1.5,0,gemm'"),
        (GOOD + ";", "entry ''"),
        (GOOD + ";B:1,0", "entry 'B:1,0'"),
        (GOOD + "\0", "entry "),
        (GOOD.replace("=A", "=\N{LATIN SMALL LETTER U WITH DIAERESIS}"), "entry "),
        (GOOD.replace("64-", "9" * 14 + "-", 1), "key "),
        ("key=" + "x" * 100_000, "key 'key'"),
    ],
)
def test_a_malformed_line_is_listed_and_others_imported(
    shell: Any, tmp_path: Path, line: str, reason: str
) -> None:
    file = tmp_path / "gfx90a68.HIP.fdb.txt"
    other = GOOD.replace("64-", "32-", 1)
    file.write_text(f"{GOOD}\n{line}\n\n{other}", encoding="utf-8")  # the last line lacks its end
    errors = tmp_path / "errors.txt"
    (report,) = shell.json("db", "import", file, "--to", tmp_path / "db", "--errors", errors)[
        "files"
    ]
    assert (report["lines"], report["added"]) == (3, 2)
    (refused,) = report["refused"]
    assert refused["line"] == 2
    assert refused["reason"].startswith(reason)
    assert errors.read_text() == f"{file}:2: {refused['reason']}\n"


@pytest.mark.parametrize(
    "options",
    ["_g32", "_ciFP8", "_cwBF8", "_coFP8", "_g2_ciFP8_cwFP8_coBF8"],
)
def test_groups_and_cast_types_are_kept(shell: Any, tmp_path: Path, options: str) -> None:
    file = tmp_path / "gfx942130.HIP.fdb.txt"
    file.write_text(GOOD.replace("-F=", f"-F{options}=") + "\r\n")
    shell("db", "import", file, "--to", tmp_path / "db")
    assert f"-F{options}=A" in export(shell, tmp_path / "db", tmp_path / "out.txt")
    key = GOOD.partition("=")[0] + options
    (found,) = shell.json("db", "show", key, tmp_path / "db")["found"]
    assert found["results"][0]["solver"] == "A"


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("gfx90a68.HIP", "miopen|HIP|gfx90a68|gfx90a|104"),
        ("gfx90878.OpenCL", "miopen|OpenCL|gfx90878|gfx908|120"),
        ("gfx942130.HIP", "miopen|HIP|gfx942130|gfx942|304"),
        ("gfx1030_36.HIP", "miopen|HIP|gfx1030_36|gfx1030|36"),
        ("gfx906_nosramecc_60.HIP", "miopen|HIP|gfx906_nosramecc_60|gfx906|60"),
    ],
)
def test_devices_are_read_from_names_of_files(name: str, identity: str) -> None:
    assert ForeignDevice.parse(name).identity == identity
    for suffix in (".fdb.txt", ".fdb.txt.bz2", ".3_3_0_2d1fd997.ufdb.txt"):
        assert ForeignDevice.of_file(Path("x") / f"{name}{suffix}") == ForeignDevice.parse(name)


def test_truncated_archive_leaves_the_database_as_it_was(shell: Any, tmp_path: Path) -> None:
    database = tmp_path / "db"
    shell("db", "import", DATA / "gfx1030_36.HIP.fdb.txt", "--to", database)
    before = (database / "finddb.lmdb").read_bytes()
    text = (DATA / "gfx942130.HIP.fdb.txt").read_bytes()
    file = tmp_path / "gfx942130.HIP.fdb.txt.bz2"
    file.write_bytes(bz2.compress(text) + bz2.compress(text)[:-20])
    assert "truncated" in shell.error("db", "import", file, "--to", database)
    file.write_bytes(bz2.compress(text)[:50] + b"garbage" + bz2.compress(text)[57:])
    assert "cannot be read" in shell.error("db", "import", file, "--to", database)
    assert (database / "finddb.lmdb").read_bytes() == before


@pytest.mark.parametrize("name", ["gfx942130.HIP.fdb.txt.bz2", "a.jsonl.bz2"])
@pytest.mark.parametrize("line", [b"\n", b"x" * 1000 + b"\n"])
def test_a_small_file_that_expands_to_a_huge_one_is_refused(
    shell: Any, tmp_path: Path, name: str, line: bytes
) -> None:
    file = tmp_path / name
    file.write_bytes(bz2.compress(line * ((32 << 20) // len(line))))
    assert "expands to more than" in shell.error("db", "import", file, "--to", tmp_path / "db")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# A title\n\ntext\n", b"\x7fELF" * 2000])
def test_files_without_an_entry_are_refused(shell: Any, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "gfx90a68.HIP.fdb.txt"
    file.write_bytes(content)
    message = shell.error("db", "import", file, "--to", tmp_path / "db")
    assert "empty" in message or "holds no entry" in message


def test_endless_line_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gfx90a68.HIP.fdb.txt"
    file.write_bytes(bytes(20 << 20))
    with pytest.raises(FindDbError, match="longer than 4 MiB"):
        import_miopen(tmp_path / "db", file)


def test_files_that_cannot_be_read_are_one_line(shell: Any, tmp_path: Path) -> None:
    database = tmp_path / "db"
    file = tmp_path / "gfx90a68.HIP.fdb.txt"
    assert "does not exist" in shell.error("db", "import", file, "--to", database)
    file.mkdir()
    assert "is a folder" in shell.error("db", "import", file, "--to", database)
    other = tmp_path / "my.txt"
    other.write_text(GOOD)
    assert "with --device" in shell.error("db", "import", other, "--to", database)
    assert not database.exists()
    shell("db", "import", other, "--device", "gfx90a68.HIP", "--to", database)
    assert "is a file" in shell.error(
        "db", "import", other, "--device", "gfx90a68.HIP", "--to", other
    )


def test_a_find_never_sees_foreign_records(
    shell: Any,
    store: Callable[..., Path],
    record: Callable[..., Any],
    target: Target,
    problem: ConvProblem,
    tmp_path: Path,
) -> None:
    folder = store("user", record())
    file = tmp_path / "gfx90a68.HIP.fdb.txt"
    file.write_text(GOOD + "\n")
    shell("db", "import", file, "--to", folder)
    with FindDb.open(folder) as database:
        stored = database.lookup(target, problem)
        assert stored is not None
        assert [found.solver for found in stored.entry.records] == ["solver-a"]
        assert len(list(database.entries())) == 1
        assert not database.health()
    found = shell.json("db", "show", format_miopen_key(problem), folder)["found"]
    assert [one["origin"] for one in found] == ["convfind", "miopen"]


def test_export_asks_for_the_device_where_there_are_several(shell: Any, tmp_path: Path) -> None:
    shell("db", "import", *SAMPLES, "--to", tmp_path / "db")
    words = ("db", "export", tmp_path / "db", "--format", "miopen", "--output", tmp_path / "out")
    assert "gfx90a68.HIP" in shell.error(*words)
    assert "no records of 'gfx000'" in shell.error(*words, "--device", "gfx000")
    assert not (tmp_path / "out").exists()
    written = shell.json(*words, "--device", "gfx90a68.HIP")["written"]
    assert written == len((DATA / "gfx90a68.HIP.fdb.txt").read_text().splitlines())
