"""``convfind db serve``: what pages show, to whom, and what they never allow."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from convfind import Config
from convfind.device.target import Target
from convfind.finddb import FindDb, FindRecord, QuarantineRecord
from convfind.problem import ConvProblem
from convfind_finddb_tools.tune.campaign import Campaign
from convfind_finddb_tools.tune.workload import Found, Reading, gather, update_workload

pytest.importorskip("starlette", reason="Starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("httpx2", reason="Starlette has its test client from httpx2")

from starlette.testclient import TestClient

from convfind_finddb_tools.serve.site import build_site

TOKEN = "a-token-of-the-test"
HOME = "http://127.0.0.1:8617"
Store = Callable[..., Path]
Make = Callable[..., FindRecord]


@pytest.fixture
def databases(
    store: Store, record: Make, target: Target, problem: ConvProblem, tmp_path: Path
) -> dict[str, Path]:
    """Two databases: the second has another winner, and one noisy time."""
    before = store("before", record("solver-a", 2.0, spread_ms=0.1), record("solver-b", 3.0))
    store("before", record("solver-<b>", 0.5, spread_ms=0.4), problem=problem.with_batch(1))
    after = store("after", record("solver-b", 1.0, spread_ms=0.01))
    store("after", record("solver-a", 0.1), problem=problem.with_batch(1))
    with FindDb.open(before) as database:
        database.store_config(target, problem, "solver-a", 1, Config(tile=8), 2.0)
        failed = QuarantineRecord(
            solver="solver-c", solver_version=1, source_hash="", driver="", reason="crashed"
        )
        database.quarantine(target, problem, failed)
    reading = Reading("net.onnx", (Found(problem, 3, "conv1"), Found(problem.with_batch(2))))
    update_workload(before / "workload.jsonl", gather([reading]))
    return {"before": before, "after": after}


@pytest.fixture
def stranger(databases: dict[str, Path]) -> Iterator[TestClient]:
    """A browser without the token."""
    site = build_site(databases, TOKEN)
    with TestClient(site, base_url=HOME, follow_redirects=False) as client:
        yield client


@pytest.fixture
def browser(stranger: TestClient) -> TestClient:
    """A browser that opened the address with the token."""
    answer = stranger.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return stranger


def records(browser: TestClient, path: str, **query: str) -> list[dict[str, Any]]:
    """Return a page's table from JSON, having seen that CSV has the same."""
    found = browser.get(path, params={**query, "format": "json"})
    assert found.status_code == 200, found.text
    rows: list[dict[str, Any]] = found.json()
    text = browser.get(path, params={**query, "format": "csv"}).text
    written = list(csv.DictReader(io.StringIO(text)))
    assert [row.keys() for row in written] == [row.keys() for row in rows]
    assert [[str(v or "") for v in row.values() if v != 0] for row in rows] == [
        [v for v, mine in zip(row.values(), rows[n].values(), strict=True) if mine != 0]
        for n, row in enumerate(written)
    ]
    return rows


# -- who may read ---------------------------------------------------------------------------------


def test_without_the_token_nothing_is_shown(stranger: TestClient) -> None:
    for path in ("/", "/problems", "/style.css", "/?token=wrong", "/?token=", "/missing"):
        answer = stranger.get(path)
        assert answer.status_code == 403
        assert "solver" not in answer.text


def test_the_token_leaves_the_address_and_stays_in_a_cookie(stranger: TestClient) -> None:
    answer = stranger.get("/problems", params={"db": "after", "token": TOKEN})
    assert answer.headers["location"] == "/problems?db=after"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert stranger.get("/problems").status_code == 200


@pytest.mark.parametrize("host", ["example.org", "example.org:8617", "127.0.0.1.example.org"])
def test_a_name_from_elsewhere_leads_nowhere(browser: TestClient, host: str) -> None:
    answer = browser.get("/", params={"token": TOKEN}, headers={"Host": host})
    assert answer.status_code == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_pages_are_only_read(browser: TestClient, method: str) -> None:
    assert browser.request(method, "/").status_code == 405


def test_every_answer_forbids_what_is_not_its_own(stranger: TestClient) -> None:
    first = stranger.get("/")
    stranger.get("/", params={"token": TOKEN})
    for answer in (first, stranger.get("/"), stranger.get("/missing")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/problems", "/networks", "/compare", "/history"])
def test_pages_have_no_scripts_and_nothing_from_elsewhere(browser: TestClient, path: str) -> None:
    text = browser.get(path).text
    for word in ("<script", "http://", "https://", "style=", "onclick"):
        assert word not in text
    assert text.count("<h1>") == 1
    assert '<html lang="en">' in text


# -- what pages show ------------------------------------------------------------------------------


def test_devices_are_counted(browser: TestClient, target: Target) -> None:
    before, after = records(browser, "/")
    assert before["device"] == after["device"] == target.identity
    assert (before["problems"], before["records"], before["noisy"]) == (2, 3, 1)
    assert (before["quarantined"], after["quarantined"]) == (1, 0)


def test_problems_are_filtered_and_sorted(browser: TestClient, problem: ConvProblem) -> None:
    single = problem.with_batch(1).key
    rows = records(browser, "/problems", db="before")
    assert {row["problem"]: row["time_ms"] for row in rows} == {problem.key: 2.0, single: 0.5}
    assert len(records(browser, "/problems", db="before", solver="<b>")) == 1
    assert len(records(browser, "/problems", db="before", text="16x64")) == 1
    assert records(browser, "/problems", db="before", direction="bwd-data") == []
    for order, first in (("asc", 0.5), ("desc", 2.0)):
        rows = records(browser, "/problems", db="before", sort="time_ms", order=order)
        assert rows[0]["time_ms"] == first
    assert browser.get("/problems", params={"db": "missing"}).status_code == 404


def test_many_problems_come_in_pages(
    browser: TestClient, store: Store, record: Make, problem: ConvProblem
) -> None:
    for batch in range(17, 17 + 120):
        store("before", record("solver-a", 1.0), problem=problem.with_batch(batch))
    first, last = (browser.get("/problems", params={"page": page}).text for page in ("1", "99"))
    assert "Page 1 of 2" in first
    assert first.count('scope="row"') == 100
    assert "Page 2 of 2" in last  # beyond the end
    assert last.count('scope="row"') == 22
    assert len(records(browser, "/problems")) == 122


def test_a_problem_has_its_solutions_configs_noise_and_quarantine(
    browser: TestClient, target: Target, problem: ConvProblem
) -> None:
    query = {"db": "before", "device": target.identity, "problem": problem.key}
    rows = records(browser, "/problem", **query)
    assert [(row["solver"], row["time_ms"]) for row in rows] == [
        ("solver-a", 2.0),
        ("solver-b", 3.0),
    ]
    assert rows[0]["spread"] == 0.05
    assert rows[0]["config"] == "tile=8"
    text = browser.get("/problem", params=query).text
    assert "solver-c" in text
    assert "crashed" in text
    assert text.count("<rect ") == 2
    assert browser.get("/problem", params={**query, "device": "x"}).status_code == 404


def test_text_of_a_database_is_never_markup(browser: TestClient) -> None:
    text = browser.get("/problems", params={"db": "before", "text": '"><b>'}).text
    assert "<b>" not in text
    assert "solver-&lt;b&gt;" in browser.get("/problems", params={"db": "before"}).text


def test_networks_sum_what_is_recorded(browser: TestClient) -> None:
    (row,) = records(browser, "/networks", db="before")
    assert row["network"] == "net.onnx"
    assert (row["problems"], row["recorded"], row["occurrences"]) == (2, 1, 4)
    assert row["time_ms"] == 6.0


def test_two_databases_are_compared_without_noise_in_the_mean(
    browser: TestClient, target: Target, problem: ConvProblem
) -> None:
    query = {"first": f"before: {target.identity}", "second": f"after: {target.identity}"}
    rows = records(browser, "/compare", **query)
    ratios = {row["problem"]: row["ratio"] for row in rows}
    assert ratios == {problem.key: 0.5, problem.with_batch(1).key: pytest.approx(0.2)}
    text = browser.get("/compare", params=query).text
    assert "0.500 times as long" in text
    assert "over 1 problems" in text


def test_the_history_has_days_of_records_and_runs_of_tuning(
    browser: TestClient,
    databases: dict[str, Path],
    store: Store,
    record: Make,
    target: Target,
    problem: ConvProblem,
) -> None:
    day = 86400
    old = record("solver-d", 1.5, created=10 * day)
    store("before", old, problem=problem.with_batch(4))
    rows = records(browser, "/history", db="before", device=target.identity)
    assert rows[0]["day"] > rows[-1]["day"] == "1970-01-11"
    assert rows[-1]["package"] == "solvers 1.0"
    assert (rows[-1]["problems"], rows[-1]["records"], rows[-1]["fastest"]) == (1, 1, 1)
    assert sum(row["records"] for row in rows) == 4
    assert sum(row["noisy"] for row in rows) == 1
    assert sum(row["fastest"] for row in rows) == 3
    assert "Runs of tuning" not in browser.get("/history", params={"db": "before"}).text
    with Campaign(databases["before"]) as campaign:
        for why in ("interrupted", "done"):
            campaign.journal.write("started", strategy="full", problems=9, device=target.identity)
            campaign.journal.write("finished", problem="p", worker="w1", failure="out of memory")
            campaign.journal.write("stopped", why=why, remaining=1)
    text = browser.get("/history", params={"db": "before"}).text
    assert text.index("Runs of tuning") < text.index("<td>done</td>")
    assert text.index("<td>done</td>") < text.index("<td>interrupted</td>")
    other = browser.get("/history", params={"db": "before", "device": "another"}).text
    assert "interrupted" not in other
    assert records(browser, "/history", db="before", device="another") == []


def test_a_device_is_compared_with_itself_in_another_database(
    browser: TestClient, databases: dict[str, Path], target: Target, problem: ConvProblem
) -> None:
    other = replace(target, name="another device", identity="")
    for name in databases:
        with FindDb.open(databases[name]) as database:
            found = database.lookup(target, problem)
            assert found is not None
            database.store(other, problem, found.entry)
    first, second = re.findall(r'value="([^"]*)" selected', browser.get("/compare").text)
    assert (first.partition(": ")[0], second.partition(": ")[0]) == ("before", "after")
    assert first.partition(": ")[2] == second.partition(": ")[2]


def test_a_database_that_changes_is_read_anew(
    browser: TestClient, store: Store, record: Make, problem: ConvProblem
) -> None:
    assert len(records(browser, "/problems", db="after")) == 2
    store("after", record("solver-a", 0.1), problem=problem.with_batch(4))
    assert len(records(browser, "/problems", db="after")) == 3


def test_the_command_prints_an_address(shell: Any, databases: dict[str, Path]) -> None:
    address = shell.json("db", "serve", *databases.values(), "--port", "0", "--check")["address"]
    assert address.startswith("http://127.0.0.1:")
    assert len(address.partition("token=")[2]) >= 32
    assert "does not exist" in shell.error("db", "serve", "/missing.lmdb", "--check")


# -- in a browser ---------------------------------------------------------------------------------

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CONVFIND_REQUIRE_CHROMIUM"),
    reason="no chromium, chromium-browser or google-chrome on the path",
)
def test_a_browser_follows_the_address(
    databases: dict[str, Path], target: Target, problem: ConvProblem, tmp_path: Path
) -> None:
    import uvicorn

    from convfind_finddb_tools.serve.serving import free_socket

    assert CHROMIUM is not None, "CONVFIND_REQUIRE_CHROMIUM is set and there is no Chromium"
    with free_socket(0) as listening:
        config = uvicorn.Config(build_site(databases, TOKEN), log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            port = listening.getsockname()[1]
            address = f"http://127.0.0.1:{port}/problems?db=before&token={TOKEN}"
            shot = tmp_path / "serve.png"
            words = [
                *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}"),
                *("--window-size=420,900", f"--screenshot={shot}", address),
            ]
            ran = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
            dump = [*words[:-2], "--dump-dom", address]
            dom = subprocess.run(dump, check=True, capture_output=True, text=True, timeout=300)
        finally:
            server.should_exit = True
            thread.join()
    assert problem.key in dom.stdout
    assert not [line for line in ran.stderr.splitlines() if ":CONSOLE" in line]
    assert shot.stat().st_size > 5000


def test_the_style_has_both_colour_schemes(browser: TestClient) -> None:
    style = browser.get("/style.css").text
    assert "prefers-color-scheme: dark" in style
    assert json.dumps("@import") not in style


@pytest.mark.parametrize("page", ["0", "-1", "x", "\u00b2", "9" * 5000])
def test_any_page_is_answered(browser: TestClient, page: str) -> None:
    assert browser.get("/problems", params={"page": page}).status_code == 200


@pytest.mark.parametrize("path", ["//example.org/", "//example.org/%2e%2e"])
def test_the_token_leads_nowhere_else(stranger: TestClient, path: str) -> None:
    answer = stranger.get(f"{HOME}{path}?token={TOKEN}")
    assert not answer.headers.get("location", "").startswith("//")
