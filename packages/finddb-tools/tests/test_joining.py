"""Merging: better evidence wins, whatever the order and however often."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, FindRecord, QuarantineRecord, TunedConfig
from convfind.problem import ConvProblem
from convfind_finddb_tools.joining import (
    join_configs,
    join_entries,
    join_foreign,
    join_quarantines,
)
from convfind_finddb_tools.tune.workload import (
    WorkloadLine,
    read_workload,
    workload_path,
    write_workload,
)

SOLVERS = st.sampled_from(["a", "b"])
SMALL = st.integers(0, 2)
TIMES = st.sampled_from([0.5, 1.0, 2.0])
RECORDS = st.builds(
    FindRecord,
    solver=SOLVERS,
    solver_version=st.integers(1, 2),
    package=st.just("p"),
    algorithm=st.just("direct"),
    time_ms=TIMES,
    spread_ms=TIMES,
    samples=SMALL,
    workspace=SMALL,
    created=SMALL,
    driver=st.sampled_from(["d", "e"]),
    constant_weights=st.booleans(),
)
ENTRIES = st.builds(
    FindEntry,
    records=st.lists(RECORDS, max_size=6).map(tuple),
    considered=st.lists(SOLVERS, max_size=3).map(tuple),
)
CONFIGS = st.lists(
    st.builds(
        TunedConfig,
        solver=SOLVERS,
        solver_version=SMALL,
        config=st.dictionaries(SOLVERS, SMALL, max_size=2),
        time_ms=TIMES,
        created=SMALL,
    ),
    max_size=4,
).map(tuple)
QUARANTINES = st.lists(
    st.builds(
        QuarantineRecord,
        solver=SOLVERS,
        solver_version=SMALL,
        source_hash=st.just(""),
        driver=SOLVERS,
        reason=SOLVERS,
        created=SMALL,
    ),
    max_size=4,
).map(tuple)
FOREIGN = st.lists(
    st.builds(
        "{}:{},{},miopenConvolutionFwdAlgo{}".format,
        SOLVERS,
        st.sampled_from(["0", "0.0", "1", "1.0", "2"]),
        SMALL,
        st.sampled_from(["GEMM", "FFT"]),
    ),
    min_size=1,
    max_size=4,
).map(lambda entries: ";".join(entries).encode())

KINDS = [
    pytest.param(join_entries, ENTRIES, id="find"),
    pytest.param(join_configs, CONFIGS, id="config"),
    pytest.param(join_quarantines, QUARANTINES, id="quarantine"),
    pytest.param(join_foreign, FOREIGN, id="foreign"),
]


@pytest.mark.parametrize(("join", "values"), KINDS)
def test_joining_is_commutative_associative_and_idempotent(
    join: Callable[[Any, Any], Any], values: st.SearchStrategy[Any]
) -> None:
    @given(values, values, values)
    def check(a: Any, b: Any, c: Any) -> None:
        assert join(a, b) == join(b, a)
        assert join(join(a, b), c) == join(a, join(b, c))
        once = join(a, b)
        assert join(once, once) == once
        assert join(once, b) == once

    check()


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"spread_ms": 0.2, "samples": 5}, {"spread_ms": 0.6, "samples": 9, "created": 2}),
        ({"samples": 9, "created": 1}, {"samples": 5, "created": 2}),
        ({"created": 2, "spread_ms": 0.2}, {"created": 1, "spread_ms": 0.1}),
        ({"created": 1, "spread_ms": 0.1, "time_ms": 3.0}, {"created": 1, "spread_ms": 0.2}),
    ],
    ids=["quiet", "samples", "newer", "spread"],
)
def test_better_evidence_wins(
    record: Callable[..., FindRecord], better: dict[str, Any], worse: dict[str, Any]
) -> None:
    best, other = record(**better), record(**worse)
    merged = join_entries(FindEntry(records=(best,)), FindEntry(records=(other,)))
    assert merged.records == (best,)


def test_a_zero_time_of_miopen_loses() -> None:
    zero, real = (f"A:{time},0,miopenConvolutionFwdAlgoGEMM".encode() for time in ("0", "3.5"))
    assert join_foreign(zero, real) == real


def test_merge_unites_databases_and_reports_conflicts(
    shell: Any,
    store: Callable[..., Path],
    record: Callable[..., FindRecord],
    target: Target,
    problem: ConvProblem,
    tmp_path: Path,
) -> None:
    first = store("a", record("one", 1.0, samples=9), record("two", 4.0))
    second = store("b", record("one", 1.3, samples=5), record("three", 2.0))
    other = problem.with_batch(1)
    store("b", record("four"), problem=other)
    report = shell.json("db", "merge", first, second, "--to", tmp_path / "out")
    (conflict,) = report["conflicts"]
    assert (conflict["solver"], conflict["kept_ms"], conflict["dropped_ms"]) == ("one", 1.0, 1.3)
    assert conflict["problem"] == problem.key
    with FindDb.open(tmp_path / "out") as database:
        stored = database.lookup(target, problem)
        assert stored is not None
        found = [(one.solver, one.time_ms) for one in stored.entry.records]
        assert found == [("one", 1.0), ("three", 2.0), ("two", 4.0)]
        assert database.lookup(target, other) is not None
    assert shell.json("db", "merge", second, "--to", tmp_path / "out")["changed"] == 0


def test_merge_keeps_how_often_problems_occur(
    shell: Any, store: Callable[..., Path], record: Callable[..., FindRecord], tmp_path: Path
) -> None:
    def lines(*counts: tuple[str, str, int]) -> list[WorkloadLine]:
        return [WorkloadLine(source=one, problem=what, count=n) for one, what, n in counts]

    first, second = store("first", record("a")), store("second", record("b"))
    write_workload(workload_path(first), lines(("net", "p", 3), ("net", "q", 1)))
    write_workload(workload_path(second), lines(("net", "p", 4), ("other", "p", 1)))
    wanted = lines(("net", "p", 4), ("net", "q", 1), ("other", "p", 1))
    for number, order in enumerate(((first, second), (second, first), (first, second, first))):
        out = tmp_path / f"out{number}"
        assert shell.json("db", "merge", *order, "--to", out, "--direction", "fwd")["networks"] == 2
        merged = read_workload(workload_path(out))
        assert sorted(merged, key=lambda line: (line.source, line.problem)) == wanted
    shell("db", "merge", first, "--to", out)
    assert read_workload(workload_path(out)) == merged


def test_a_malformed_workload_leaves_everything_alone(
    shell: Any, store: Callable[..., Path], record: Callable[..., FindRecord], tmp_path: Path
) -> None:
    first = store("first", record("a"))
    workload_path(first).write_text("{")
    shell("db", "merge", first, "--to", tmp_path / "out", code=2)
    assert not (tmp_path / "out").exists()


def test_merge_in_any_order_gives_one_database(
    shell: Any, store: Callable[..., Path], record: Callable[..., FindRecord], tmp_path: Path
) -> None:
    paths = [
        store(name, record("s", time, samples=samples, created=7))
        for name, time, samples in (("a", 1.0, 3), ("b", 2.0, 8), ("c", 3.0, 8))
    ]
    texts = []
    for number, order in enumerate((paths, paths[::-1], [paths[1], paths[0], paths[2]])):
        out = tmp_path / f"out{number}"
        shell("db", "merge", *order, "--to", out)
        text = tmp_path / f"{number}.jsonl"
        shell("db", "export", out, "--format", "jsonl", "--output", text)
        texts.append(text.read_bytes())
    assert texts[0] == texts[1] == texts[2]
    assert b'"time_ms":2.0' in texts[0]


def test_a_database_that_is_named_twice_counts_once(
    shell: Any, store: Callable[..., Path], record: Callable[..., FindRecord], tmp_path: Path
) -> None:
    folder = store("a", record())
    report = shell.json("db", "merge", folder, folder / "finddb.lmdb", "--to", tmp_path / "out")
    assert (report["read"], report["changed"]) == (1, 1)


def test_merge_refuses_its_own_output_and_missing_sources(
    shell: Any, store: Callable[..., Path], record: Callable[..., FindRecord], tmp_path: Path
) -> None:
    database = store("a", record())
    assert "source" in shell.error("db", "merge", database, "--to", database)
    out = tmp_path / "out"
    assert "does not exist" in shell.error("db", "merge", database, tmp_path / "no", "--to", out)
    assert not out.exists()
