"""Looking into databases: stats, list, show, diff, JSON Lines, compact, repair."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import lmdb
import pytest

from convfind import Config
from convfind.device.target import Target
from convfind.finddb import FindDb, FindRecord, QuarantineRecord
from convfind.finddb.database import FILE_NAME
from convfind.problem import ConvProblem
from convfind_finddb_tools.cli.db import db
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.selection import Selection

DATA = Path(__file__).with_name("data")
Store = Callable[..., Path]
Make = Callable[..., FindRecord]


@pytest.fixture
def miopen(shell: Any, tmp_path: Path) -> Path:
    shell("db", "import", *sorted(DATA.glob("*.fdb.txt")), "--to", tmp_path / "miopen")
    return tmp_path / "miopen"


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of every command of a group and of the groups in it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


def test_a_database_that_another_process_makes_grow_while_it_is_opened_for_reading(
    store: Store, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store("a", record("solver", 1.0)) / FILE_NAME
    grow = f"""
import lmdb
with lmdb.open({str(path)!r}, subdir=False, map_size=1 << 30, max_dbs=9) as file:
    with file.begin(file.open_db(b"config"), write=True) as transaction:
        transaction.put(b"a", bytes(1 << 25))
"""
    open_tables = Snapshot._open_tables

    def open_tables_late(snapshot: Snapshot) -> dict[str, lmdb._Database]:
        monkeypatch.undo()
        subprocess.run([sys.executable, "-c", grow], check=True)
        return open_tables(snapshot)

    monkeypatch.setattr(Snapshot, "_open_tables", open_tables_late)
    with Snapshot(path) as snapshot:
        assert snapshot.count("find") == 1
        assert snapshot.count("config") == 1


def test_a_database_that_grows_while_it_is_mapped_is_read_with_its_lock(
    store: Store, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store("a", record("solver", 1.0)) / FILE_NAME
    opened, locks = lmdb.open, []

    def outgrown(*args: Any, **options: Any) -> lmdb.Environment:
        locks.append(options.get("lock", True))
        if len(locks) == 1:
            raise lmdb.MapResizedError("grew")
        return opened(*args, **options)

    monkeypatch.setattr(lmdb, "open", outgrown)
    with Snapshot(path) as snapshot:
        assert snapshot.count("find") == 1
    assert locks == [True, True]


@pytest.mark.parametrize("words", [*commands(db)], ids=" ".join)
def test_every_command_has_help_with_examples_and_json(shell: Any, words: tuple[str, ...]) -> None:
    text = shell("db", *words, "--help").stdout
    assert "Examples:" in text
    assert f"convfind db {' '.join(words)}" in text
    assert "--json" in text


def test_group_lists_commands_and_refuses_others(shell: Any) -> None:
    assert "repair" in shell("db", "--help").stdout
    assert "No such command" in shell("db", "nonsense", code=2).stderr


def test_registering_imports_no_command() -> None:
    code = (
        "import sys; from convfind.cli import build_program;"
        "from convfind.plugins.registry import Registry; import convfind_finddb_tools.hooks as h;"
        "build_program(Registry.build([h], load_entry_points=False));"
        "print([n for n in sys.modules if n.startswith('convfind_finddb_tools.')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    commands = ("hooks", "cli", "cli.db", "cli.tune", "cli.heuristics")
    models = ("heuristics", "heuristics.shipped")  # their names: files are read when asked
    light = commands + models
    assert set(ast.literal_eval(ran.stdout)) <= {f"convfind_finddb_tools.{name}" for name in light}


def test_stats_count_what_is_there(shell: Any, miopen: Path) -> None:
    lines = [
        line
        for path in DATA.glob("*.fdb.txt")
        for line in path.read_text().splitlines()
        if not ("-1x1x1-" in line and "-0x0-" in line)  # malformed
    ]
    counted = shell.json("db", "stats", miopen)
    assert counted["problems"] == len(lines)
    assert counted["origins"] == {"miopen": len(lines)}
    assert sum(counted["directions"].values()) == len(lines)
    assert counted["dtypes"]["int8"] == sum("-INT8-" in line for line in lines)
    assert counted["layouts"]["NCDHW"] == sum("-NCDHW-" in line for line in lines)
    assert counted["zero_times"] == sum(line.count(":0,") + line.count(":0.0,") for line in lines)
    assert counted["zero_times"] > 0
    table = shell("db", "stats", miopen, "--top", 2).stdout
    assert "solver winners" in table
    assert "more" in table


@pytest.mark.parametrize(
    ("option", "value", "token"),
    [
        ("--direction", "fwd", "-F$"),
        ("--direction", "bwd-data", "-B$"),
        ("--direction", "bwd-weights", "-W$"),
        ("--dtype", "int8", "-INT8-"),
        ("--dtype", "float16", "-FP16-"),
        ("--layout", "nhwc", "-NHWC-NHWC-NHWC-"),
        ("--layout", "NCDHW", "-NCDHW-"),
        ("--device", "GFX942", ""),
    ],
)
def test_filters_choose_problems(
    shell: Any, miopen: Path, option: str, value: str, token: str
) -> None:
    rows = shell.json("db", "list", miopen, "--limit", 0)["problems"]
    chosen = shell.json("db", "list", miopen, "--limit", 0, option, value)["problems"]
    wanted = [
        row
        for row in rows
        if re.search(token, row["problem"].partition("_")[0])
        and (option != "--device" or value.lower() in row["device"])
    ]
    assert chosen == wanted
    assert 0 < len(chosen) < len(rows)


def test_filters_choose_results(shell: Any, miopen: Path) -> None:
    every = shell.json("db", "stats", miopen)
    found = shell.json("db", "stats", miopen, "--algorithm", "winograd")
    assert set(found["algorithm_winners"]) == {"winograd"}
    assert every["algorithm_winners"]["winograd"] < found["problems"] < every["problems"]
    found = shell.json("db", "stats", miopen, "--solver", "GemmFwd1x1_0_1")
    assert set(found["solver_winners"]) == {"GemmFwd1x1_0_1"}
    assert found["results"] == found["problems"] > 0


def test_list_is_limited_and_says_so(shell: Any, miopen: Path) -> None:
    result = shell("db", "list", miopen, "--limit", 2)
    assert "only the first 2" in result.stderr
    assert shell.json("db", "list", miopen, "--limit", 2)["more"]


def test_age_and_origin_choose_records(
    shell: Any, store: Store, record: Make, miopen: Path, tmp_path: Path
) -> None:
    now = int(time.time())
    own = store("own", record("old", 1.0, created=now - 40 * 86400), record("new", 2.0))
    shell("db", "merge", own, "--to", miopen)

    def fastest(*options: str) -> list[str]:
        return [row["fastest"] for row in shell.json("db", "list", miopen, *options)["problems"]]

    assert fastest("--older-than", "30d") == ["old"]
    assert fastest("--newer-than", "12h") == ["new"]
    assert fastest("--older-than", "8w") == []
    assert fastest("--origin", "convfind") == ["old"]
    assert "old" not in fastest("--origin", "miopen", "--limit", "0")
    assert "is not an age" in shell("db", "list", miopen, "--older-than", "3 days", code=2).stderr


def test_stale_records_are_those_of_another_driver(
    store: Store, record: Make, target: Target
) -> None:
    folder = store("a", record("old", 1.0, driver="driver 0"), record("new", 2.0))
    with Snapshot(folder) as snapshot:
        here = Selection(stale=True, drivers={target.identity: target.driver})
        (entry,) = here.entries(snapshot)
        assert [result.solver for result in entry.results] == ["old"]
        elsewhere = Selection(stale=True, drivers={"another device": "driver 9"})
        assert not list(elsewhere.entries(snapshot))


def test_stale_asks_the_devices_that_are_here(shell: Any, store: Store, record: Make) -> None:
    assert shell.json("db", "list", store("a", record()), "--stale")["problems"] == []


def test_gc_removes_what_the_filters_choose(
    shell: Any, store: Store, record: Make, target: Target, problem: ConvProblem, miopen: Path
) -> None:
    folder = store("a", record("x", 1.0), record("y", 2.0))
    counted = shell.json("db", "gc", folder, "--solver", "x", "--dry-run")
    assert counted == {"problems": 1, "results": 1, "removed": False}
    assert shell.json("db", "gc", folder, "--solver", "x")["results"] == 1
    with FindDb.open(folder) as database:
        stored = database.lookup(target, problem)
        assert stored is not None
        assert [one.solver for one in stored.entry.records] == ["y"]
        assert stored.entry.considered == ()  # "x@1" was
    shell("db", "gc", folder, "--newer-than", "1d")
    with FindDb.open(folder) as database:
        assert database.lookup(target, problem) is None

    before = shell.json("db", "stats", miopen)
    removed = shell.json("db", "gc", miopen, "--algorithm", "gemm")["results"]
    after = shell.json("db", "stats", miopen)
    assert after["results"] == before["results"] - removed
    assert "gemm" not in after["algorithm_winners"]
    shell("db", "gc", miopen, "--device", "gfx942")
    assert set(shell.json("db", "stats", miopen)["devices"]) == {
        device for device in before["devices"] if "gfx942" not in device
    }
    assert "no filter" in shell("db", "gc", miopen, code=2).stderr


def test_show_tells_everything_about_a_problem(
    shell: Any, store: Store, record: Make, target: Target, problem: ConvProblem
) -> None:
    folder = store("user", record("solver-a", 1.5, driver="driver 7"))
    with FindDb.open(folder) as database:
        database.store_config(target, problem, "solver-a", 1, Config(tile=8), 1.5)
        failure = QuarantineRecord(
            solver="solver-b", solver_version=1, source_hash="", driver="d", reason="crashed"
        )
        database.quarantine(target, problem, failure)
    (found,) = shell.json("db", "show", problem.key)["found"]  # the database that finds use
    assert found["results"][0]["driver"] == "driver 7"
    assert found["tuned"][0]["config"] == {"tile": 8}
    assert found["quarantined"][0]["reason"] == "crashed"
    text = shell("db", "show", problem.key, folder).stdout
    assert "driver 7" in text
    assert "crashed" in text
    unknown = problem.with_batch(3).key
    assert "knows nothing" in shell.error("db", "show", unknown, folder)
    assert "not possible" in shell("db", "show", "nonsense", folder, code=2).stderr


def test_diff_tells_what_changed(
    shell: Any, store: Store, record: Make, problem: ConvProblem
) -> None:
    first = store("a", record("one", 1.0), record("two", 2.0), record("same", 9.0))
    second = store("b", record("one", 3.0), record("two", 2.0), record("same", 9.3))
    store("a", record(), problem=problem.with_batch(1))
    store("b", record(), problem=problem.with_batch(2))
    store("b", record(), problem=problem.with_batch(3))
    found = shell.json("db", "diff", first, second)
    assert (found["only_in_a"], found["only_in_b"], found["changed"]) == (1, 2, 1)
    (changed,) = [row for row in found["differences"] if row["solvers"]]
    assert changed["winner_changed"]
    assert changed["solvers"] == [{"solver": "one", "a_ms": 1.0, "b_ms": 3.0}]
    assert "3.00" in shell("db", "diff", first, second).stdout
    assert shell.json("db", "diff", first, second, "--threshold", 300)["changed"] == 0
    assert "same database" in shell("db", "diff", first, first, code=2).stderr


def test_json_lines_round_trip_exactly(
    shell: Any, store: Store, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> None:
    folder = store("a", record("one", 0.1 + 0.2, config={"tile": 8, "fast": True}, error=1e-7))
    with FindDb.open(folder) as database:
        database.store_config(target, problem, "one", 1, Config(tile=8), 1.5)
    shell("db", "import", DATA / "gfx942130.HIP.fdb.txt", "--to", folder)
    text, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    written = shell.json("db", "export", folder, "--format", "jsonl", "--output", text)["written"]
    (report,) = shell.json("db", "import", text, "--to", tmp_path / "b")["files"]
    assert report["added"] == written == 52
    shell("db", "export", tmp_path / "b", "--format", "jsonl", "--output", again)
    assert again.read_bytes() == text.read_bytes()
    with FindDb.open(folder) as first, FindDb.open(tmp_path / "b") as second:
        assert first.lookup(target, problem) == second.lookup(target, problem)
    (report,) = shell.json("db", "import", text, "--to", folder)["files"]
    assert report["unchanged"] == written


def test_what_is_written_replaces_files_and_nothing_else(
    shell: Any, store: Store, record: Make, tmp_path: Path
) -> None:
    words = ("db", "export", store("a", record()), "--format", "jsonl", "--output")
    text, link, pipe = (tmp_path / name for name in ("text", "link", "pipe"))
    text.write_text("older")
    link.symlink_to(text)
    shell(*words, link)
    assert link.is_symlink()
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    shell(*words, pipe)
    assert os.read(reader, 1 << 16) == text.read_bytes() != b"older"
    os.close(reader)
    assert pipe.is_fifo()
    missing = tmp_path / "missing" / "text"
    assert f"{missing} cannot be written: No such file" in shell.error(*words, missing)


def test_malformed_json_lines_are_listed(
    shell: Any, store: Store, record: Make, tmp_path: Path
) -> None:
    text = tmp_path / "a.jsonl"
    shell("db", "export", store("a", record()), "--format", "jsonl", "--output", text)
    good = json.loads(text.read_text())
    faulty: list[tuple[dict[str, Any] | str, str]] = [
        ("{", "truncated"),
        (good | {"table": "other"}, "is none of"),
        (good | {"key": "1|x"}, "does not begin"),
        (good | {"key": "abc"}, "does not begin"),
        (good | {"key": ""}, "does not begin"),
        (good | {"key": "|"}, "does not begin"),
        (good | {"key": "x" * 70_000}, "does not begin"),
        (good | {"table": "foreign", "key": f"1|miopen|a|b|c|{'9' * 9999}|k"}, ""),
        (good | {"records": [good["records"][0] | {"config": {"tile": 10**30}}]}, "64 bits"),
        (good | {"key": good["key"] + "x"}, "float32x"),
        (good | {"key": "2" + good["key"][1:]}, "does not begin"),
        (good | {"extra": 1}, "extra"),
        (good | {"records": [{"solver": "s"}]}, "missing"),
        (good | {"records": [good["records"][0] | {"time_ms": "fast"}]}, "float"),
        (good | {"table": "foreign", "text": "x"}, "not the key"),
        (good | {"key": good["key"].replace("16x64", "9" * 9999 + "x64")}, ""),
        (good | {"records": [good["records"][0] | {"time_ms": 0}]}, "not above 0"),
        (good | {"records": [good["records"][0] | {"time_ms": -1e308}]}, "not above 0"),
        (good | {"records": [good["records"][0] | {"algorithm": "magic"}]}, "none of"),
        (good | {"records": [good["records"][0] | {"samples": 10**30}]}, ""),
        (json.dumps(good)[:-1] + ',"z":' + "[" * 99999 + "]" * 99999 + "}", ""),
        (json.dumps(good).replace('"solver-a"', '"\\ud800"'), ""),
        (json.dumps(good).replace("1.0", "NaN"), ""),
    ]
    lines = [line if isinstance(line, str) else json.dumps(line) for line, _ in faulty]
    text.write_text("\n".join([json.dumps(good), *lines]))
    (report,) = shell.json("db", "import", text, "--to", tmp_path / "b")["files"]
    assert report["added"] == 1
    assert [line["line"] for line in report["refused"]] == list(range(2, len(faulty) + 2))
    for refused, (_, reason) in zip(report["refused"], faulty, strict=True):
        assert reason in refused["reason"]


def test_a_file_that_ends_in_rubbish_changes_nothing(
    shell: Any, store: Store, record: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convfind_finddb_tools.import_miopen._MOST_REFUSED", 100)
    text = tmp_path / "gfx90a68.HIP.fdb.jsonl"
    shell("db", "export", store("a", record("new")), "--format", "jsonl", "--output", text)
    text.write_bytes(text.read_bytes() + b"rubbish\n" * 101)
    miopen = tmp_path / "gfx942130.HIP.fdb.txt"
    miopen.write_bytes((DATA / miopen.name).read_bytes() + b"rubbish\n" * 101)
    database = store("b", record("old"))
    shell("db", "merge", store("c", record("other")), "--to", database)
    before = (database / "finddb.lmdb").read_bytes()
    for file in (text, miopen):
        assert "more than 100 lines" in shell.error("db", "import", file, "--to", database)
        assert "more than 100 lines" in shell.error("db", "convert", file, tmp_path / "new")
    assert (database / "finddb.lmdb").read_bytes() == before
    assert not (tmp_path / "new").exists()


def test_compact_copies_everything(shell: Any, miopen: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.lmdb"
    assert shell.json("db", "compact", miopen, "--to", out)["bytes"] == out.stat().st_size
    found = shell.json("db", "diff", miopen, out)
    assert (found["only_in_a"], found["only_in_b"], found["changed"]) == (0, 0, 0)
    assert "exists already" in shell.error("db", "compact", miopen, "--to", out)


@pytest.mark.parametrize("damage", ["truncated", "meta", "pages"])
def test_repair_saves_what_is_whole(
    shell: Any, miopen: Path, store: Store, record: Make, tmp_path: Path, damage: str
) -> None:
    shell("db", "merge", store("own", record("mine")), "--to", miopen)
    total = shell.json("db", "stats", miopen)["problems"]
    file = miopen / "finddb.lmdb"
    data = bytearray(file.read_bytes())
    if damage == "truncated":
        del data[len(data) // 2 :]
    elif damage == "meta":
        data[:8192] = b"\xff" * 8192
    else:
        for page in range(2 * 4096, len(data), 3 * 4096):
            data[page : page + 64] = b"\xff" * 64
    file.write_bytes(data)
    saved = shell.json("db", "repair", file, "--to", tmp_path / "saved")["saved"]
    counted = shell.json("db", "stats", tmp_path / "saved")["problems"]
    assert 0 < counted <= total
    assert counted == saved.get("find", 0) + saved.get("foreign", 0)
    assert damage != "meta" or counted == total


def test_damaged_files_are_one_line_and_stay_as_they_are(
    shell: Any, miopen: Path, tmp_path: Path
) -> None:
    file = miopen / "finddb.lmdb"
    file.write_bytes(file.read_bytes()[: 3 * 4096])
    for words in (
        ("stats", miopen),
        ("import", DATA / "gfx942130.HIP.fdb.txt", "--to", miopen),
        ("merge", miopen, "--to", tmp_path / "out"),
    ):
        assert "convfind db repair" in shell.error("db", *words)
    assert file.stat().st_size == 3 * 4096
    file.write_bytes(b"text" * 5000)
    assert "not a database" in shell.error("db", "stats", miopen)


def test_wrong_places_are_one_line(shell: Any, tmp_path: Path) -> None:
    assert "does not exist" in shell.error("db", "stats", tmp_path / "none.lmdb")
    (empty := tmp_path / "empty.lmdb").touch()
    assert "is empty" in shell.error("db", "stats", empty)
    assert "holds no find database" in shell.error("db", "list", tmp_path)
    text = tmp_path / "x.txt"
    text.write_text("x")
    assert "is no find database" in shell.error("db", "stats", text)
    lmdb.open(str(tmp_path / "other.lmdb"), subdir=False).close()
    assert "no find database" in shell.error("db", "stats", tmp_path / "other.lmdb")


def test_newer_schema_is_left_alone(shell: Any, store: Store, record: Make) -> None:
    folder = store("a", record())
    with lmdb.open(str(folder / "finddb.lmdb"), subdir=False, max_dbs=4) as file:
        meta = file.open_db(b"meta")
        with file.begin(meta, write=True) as transaction:
            transaction.put(b"schema", b"2")
    before = (folder / "finddb.lmdb").read_bytes()
    sample = DATA / "gfx942130.HIP.fdb.txt"
    for words in (("stats", folder), ("import", sample, "--to", folder)):
        assert "upgrade convfind" in shell.error("db", *words)
    assert (folder / "finddb.lmdb").read_bytes() == before
