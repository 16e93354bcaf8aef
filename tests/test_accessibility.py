"""Every page can be read by everybody: axe finds nothing in it, and nothing sticks out.

The pages are those of the site, where it was built, of a report, and of `convfind db serve`. axe is
not part of this repository: ``AXE_CORE`` names its ``axe.min.js``, which tox's environment
``site`` installs by npm.

A page takes axe seconds. Colours come from style sheets, by kinds of elements: they are looked at
in as many pages of the site as hold all kinds, the structure of one in eight others, and the width
of all on a phone. With ``AXE_ALL_PAGES=1`` all of axe's rules are asked of all pages.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the sibling of this file

from chromium import CHROMIUM, Look, check_pages, showing_all_kinds

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build/site"
AXE = os.environ.get("AXE_CORE", "")
ALL_PAGES = bool(os.environ.get("AXE_ALL_PAGES"))
LEAST = 95.0  # percent of axe's rules

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (not CHROMIUM or not Path(AXE).is_file()) and "CONVFIND_REQUIRE_CHROMIUM" not in os.environ,
        reason="no Chromium on the path, or AXE_CORE names no file",
    ),
]

EACH_LOOK = pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])


def check(folders: Mapping[str, Path], pages: Mapping[str, Look], width: int, scheme: str) -> None:
    assert pages
    checked = check_pages(folders, pages, Path(AXE), width=width, scheme=scheme)
    assert [one.page for one in checked] == [*pages]
    faults = [f"{one.page}: {fault}" for one in checked for fault in one.faults]
    assert not faults, "\n".join(faults)
    by_axe = [page for page in checked if page.look != Look.WIDTH]
    assert all(page.passed for page in by_axe), "axe did not run"
    assert min(page.score for page in by_axe) >= LEAST


@pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built: `mkdocs build`")
@EACH_LOOK
def test_the_site(width: int, scheme: str) -> None:
    files = sorted(SITE.rglob("*.html"))
    closely = files if ALL_PAGES else showing_all_kinds(files, sorted(SITE.rglob("*.css")))
    others = [file for file in files if file not in closely]
    # Pages stick out in narrow windows, and have one structure in both looks.
    look, seen = (Look.STRUCTURE, others[::8]) if scheme == "light" else (Look.WIDTH, others)
    looks = {**dict.fromkeys(closely, Look.ALL), **dict.fromkeys(seen, look)}
    pages = {f"/{file.relative_to(SITE).as_posix()}": looks[file] for file in sorted(looks)}
    check({"/": SITE}, pages, width, scheme)


@pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built: `mkdocs build`")
def test_pages_of_the_site_ask_no_other_host() -> None:
    asks = re.compile(r'<(?:script|img|iframe)[^>]* src="https?:|<link[^>]* href="https?:')
    for page in SITE.rglob("*.html"):
        text = page.read_text()
        scripts = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
        assert not asks.search(scripts), page
        assert "document.write" in text, "search works from a folder, too"


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two databases with a network, noisy times, and a solver in quarantine."""
    pytest.importorskip("convfind_finddb_tools")
    from convfind.device.target import DeviceKind, Target
    from convfind.finddb import FindDb, FindEntry, FindRecord, QuarantineRecord
    from convfind.problem import ConvProblem
    from convfind_finddb_tools.tune.workload import Found, Reading, gather, update_workload

    name = "Example CPU 1234X with a name as long as those of some 64-core processors"
    target = Target(*("opencl", name, DeviceKind.CPU, "Example", "Example CL", "x86-64", 8, "1.0"))
    folder = tmp_path_factory.mktemp("databases")
    problems = [
        ConvProblem.forward((batch, 64, 56, 56), (64, 64, width, width), padding=width // 2)
        for batch in (1, 4, 16)
        for width in (1, 3)
    ]
    for name, factor in (("before", 2.0), ("after", 1.0)):
        with FindDb.open(folder / name) as database:
            for number, problem in enumerate(problems):
                records = tuple(
                    FindRecord(
                        solver=f"solver-{algorithm}",
                        solver_version=1,
                        package="solvers 1.0",
                        algorithm=algorithm,
                        time_ms=factor * (1 + number) * share,
                        spread_ms=0.4 * factor if number == 2 else 0.01,
                        samples=5,
                        workspace=(1 << 20) * position,
                        error=1e-7,
                        created=int(time.time()),
                    )
                    for position, (algorithm, share) in enumerate(
                        (("gemm", 1.0), ("winograd", 0.6), ("direct", 3.0))
                    )
                )
                database.store(target, problem, FindEntry(records=records, considered=("a@1",)))
            database.quarantine(
                target,
                problems[0],
                QuarantineRecord(
                    solver="solver-fft", solver_version=1, source_hash="", driver="", reason="wrong"
                ),
            )
        layers = tuple(Found(problem, 3, f"layer{n}") for n, problem in enumerate(problems))
        update_workload(folder / name / "workload.jsonl", gather([Reading("example.onnx", layers)]))
    return {name: folder / name for name in ("before", "after")}


@EACH_LOOK
def test_the_report(databases: dict[str, Path], tmp_path: Path, width: int, scheme: str) -> None:
    from click.testing import CliRunner

    import convfind_finddb_tools.hooks
    from convfind.cli import build_program
    from convfind.plugins.registry import Registry

    program = build_program(Registry.build([convfind_finddb_tools.hooks], load_entry_points=False))
    words = ["report", str(databases["after"]), "--before", str(databases["before"])]
    result = CliRunner().invoke(program, [*words, "--output", str(tmp_path / "report.html")])
    assert result.exit_code == 0, result.output
    check({"/": tmp_path}, {"/report.html": Look.ALL}, width, scheme)


@EACH_LOOK
def test_the_pages_of_databases(
    databases: dict[str, Path], tmp_path: Path, width: int, scheme: str
) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("httpx2")
    from starlette.testclient import TestClient

    from convfind_finddb_tools.serve.site import build_site

    with TestClient(build_site(databases, "token"), base_url="http://127.0.0.1:8617") as browser:
        browser.get("/", params={"token": "token"})
        (row, *_) = browser.get("/problems", params={"format": "json"}).json()
        problem = {"db": "before", "device": row["device"], "problem": row["problem"]}
        pages = {
            "devices": "/",
            "problems": "/problems?sort=time_ms",
            "problem": f"/problem?{urlencode(problem)}",
            "networks": "/networks",
            "compare": "/compare",
            "history": "/history",
            "missing": "/problem",
        }
        for name, address in pages.items():
            (tmp_path / f"{name}.html").write_text(browser.get(address).text)
        (tmp_path / "style.css").write_text(browser.get("/style.css").text)
    check({"/": tmp_path}, {f"/{name}.html": Look.ALL for name in pages}, width, scheme)
