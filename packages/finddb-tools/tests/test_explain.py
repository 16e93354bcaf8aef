"""``convfind db explain``: what becomes of records, and what a find would do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convfind
from convfind import FindMode
from convfind.device.target import Target
from convfind.find.decision import Action, decide
from convfind.finddb import FindDb, FindEntry, FindRecord, QuarantineRecord
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend, MockSolver
from convfind_finddb_tools.looking import open_over
from convfind_finddb_tools.standing import Use, standings

Make = Callable[..., FindRecord]


class SolverA(MockSolver):
    """One that serves all shapes."""

    solver_id = "solver-a"
    is_dynamic = True


class SolverB(SolverA):
    """Another."""

    solver_id = "solver-b"


class Mock:
    """A plugin with the mock backend and some solvers for it."""

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(MockBackend)

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend([SolverA(), SolverB()])


@pytest.fixture
def target() -> Target:
    ((_, target),) = convfind.devices(registry=registry()).devices
    return target


def registry() -> Registry:
    return Registry.build([Mock()], load_entry_points=False)


def fill(
    folder: Path,
    target: Target,
    problem: ConvProblem,
    *records: FindRecord,
    considered: tuple[str, ...] = ("solver-a@1", "solver-b@1"),
) -> Path:
    with FindDb.open(folder) as database:
        database.store(target, problem, FindEntry(records=records, considered=considered))
    return folder


def test_each_record_says_what_becomes_of_it(
    shell: Any, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> None:
    shell.plugins = (Mock(),)
    folder = fill(
        tmp_path / "tuned",
        target,
        problem,
        record("solver-a", 2.0, driver="old"),
        record("gone", 0.1),
        replace_version(record("solver-b", 0.5, driver=target.driver), 9),
    )
    shipped = fill(tmp_path / "fleet", target, problem, record("solver-a", 3.0))
    shell("db", "pack", shipped, "--device", "mock", "--output", tmp_path / "mock.lmdb")
    shell("db", "install", tmp_path / "mock.lmdb")
    found = shell.json("db", "explain", problem.key, folder)
    rows = {(row["layer"], row["record"]["solver"]): row for row in found["records"]}
    assert rows["user", "solver-a"]["use"] == "returned"
    assert rows["user", "solver-a"]["stale"]
    assert "no installed package" in rows["user", "gone"]["reason"]
    assert "version 9; installed is 1" in rows["user", "solver-b"]["reason"]
    assert rows["pack", "solver-a"]["use"] == "hidden"
    assert found["find"]["action"] == "answer"
    assert [one["solver"] for one in found["find"]["solutions"]] == ["solver-a"]
    assert found["without_result"] == ["solver-b"]
    text = shell("db", "explain", problem.key, folder).stdout
    assert "lies above it" in text
    assert "stale" in text


def replace_version(record: FindRecord, version: int) -> FindRecord:
    return msgspec.structs.replace(record, solver_version=version)


def test_a_problem_without_records_is_no_error(shell: Any, problem: ConvProblem) -> None:
    shell.plugins = (Mock(),)
    found = shell.json("db", "explain", problem.key)
    assert found["records"] == []
    assert found["find"]["action"] == "measure"
    assert found["find"]["runs"] == ["solver-a", "solver-b"]
    assert (
        shell.json("db", "explain", problem.key, "--mode", "fast")["find"]["action"] == "estimate"
    )
    assert not (shell.settings.user_db_path / "finddb.lmdb").exists()
    assert "does not exist" in shell.error("db", "explain", problem.key, "nothing.lmdb")
    assert "not possible" in shell("db", "explain", "nonsense", code=2).stderr


@pytest.mark.parametrize(
    ("options", "use", "reason"),
    [
        (("--mode", "normal"), "unused", "does not look into the database"),
        (("--solver", "solver-b"), "unused", "left out"),
        (("--workspace-limit", "10"), "over the limit", "more than 10 bytes"),
    ],
)
def test_the_policy_takes_part(
    shell: Any,
    record: Make,
    target: Target,
    problem: ConvProblem,
    tmp_path: Path,
    options: tuple[str, ...],
    use: str,
    reason: str,
) -> None:
    shell.plugins = (Mock(),)
    folder = fill(tmp_path / "db", target, problem, record("solver-a", 1.0, workspace=20))
    (row,) = shell.json("db", "explain", problem.key, folder, *options)["records"]
    assert row["use"] == use
    assert reason in row["reason"]


def test_quarantine_counts_for_its_driver(
    shell: Any, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> None:
    shell.plugins = (Mock(),)
    folder = fill(tmp_path / "db", target, problem, record("solver-a", 1.0))
    for driver, use in (("another", "returned"), (target.driver, "unused")):
        failure = QuarantineRecord(
            solver="solver-a", solver_version=1, source_hash="", driver=driver, reason="crashed"
        )
        with FindDb.open(folder) as database:
            database.quarantine(target, problem, failure)
        (row,) = shell.json("db", "explain", problem.key, folder)["records"]
        assert row["use"] == use


def test_nothing_is_written(
    shell: Any, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> None:
    shell.plugins = (Mock(),)
    file = fill(tmp_path / "db", target, problem, record("solver-a", 1.0)) / "finddb.lmdb"
    before = file.read_bytes()
    shell("db", "explain", problem.key, tmp_path / "db", "--mode", "trust_verify")
    assert file.read_bytes() == before


RECORDS = st.lists(
    st.builds(
        FindRecord,
        solver=st.sampled_from(["solver-a", "solver-b", "gone"]),
        solver_version=st.integers(1, 2),
        package=st.just("p"),
        algorithm=st.just("direct"),
        time_ms=st.sampled_from([0.5, 1.0, 2.0]),
        workspace=st.sampled_from([0, 8, 64]),
        constant_weights=st.booleans(),
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(
    layers=st.lists(RECORDS, min_size=1, max_size=3),
    considered=st.sets(st.sampled_from(["solver-a@1", "solver-b@1"])),
    mode=st.sampled_from([FindMode.FAST, FindMode.HYBRID, FindMode.DYNAMIC_HYBRID]),
    limit=st.sampled_from([None, 8]),
)
def test_explaining_agrees_with_finding(
    tmp_path_factory: pytest.TempPathFactory,
    layers: list[list[FindRecord]],
    considered: set[str],
    mode: FindMode,
    limit: int | None,
) -> None:
    plugins = registry()
    ((_, target),) = convfind.devices(registry=plugins).devices
    problem = ConvProblem.forward((2, 4, 6, 6), (4, 4, 3, 3), padding=1)
    paths = []
    for number, records in enumerate(layers):
        folder = tmp_path_factory.mktemp(f"layer{number}")
        fill(folder, target, problem, *records, considered=tuple(sorted(considered)))
        paths.append(folder)
    with open_over(None, paths, plugins, Settings()) as handle:
        policy = handle.policy(mode, workspace_limit=limit, race=False)
        rows = standings(problem, handle.session, policy)
        decision = decide(problem, handle.session, policy)
        found = handle.find(problem, mode, workspace_limit=limit, race=False, write_back=False)
    returned = [row for row in rows if row.use in (Use.RETURNED, Use.OVER_LIMIT)]
    told = {(row.record.solver, row.record.time_ms, row.record.workspace) for row in returned}
    recorded = {
        (one.solver, one.time_ms, one.workspace)
        for one in found.solutions
        if one.time_origin in ("system-db", "user-db")
    }
    assert recorded <= told
    assert len(returned) == len({row.record.solver for row in returned})
    assert found.measured == len(decision.runs)
    if decision.action is Action.ANSWER:
        assert list(found.solutions) == list(decision.known.solutions)
    identities = [
        (
            row.record.solver,
            row.record.solver_version,
            row.record.workspace,
            row.record.constant_weights,
        )
        for row in rows
        if row.use is not Use.HIDDEN
    ]
    assert all(a != b for a, b in itertools.combinations(identities, 2))
