"""The documents are true: links lead somewhere, named files exist, tables are complete."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import itertools
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "packages/core"
PARITY = ROOT / "docs/miopen-parity.md"
PARITY_TESTS = "packages/core/tests/handle/test_miopen_parity.py"

DOCUMENTS = sorted(
    path
    for place in ROOT.iterdir()
    if not place.name.startswith(".") and place.name != "venv"
    for path in ([place] if place.suffix == ".md" else place.rglob("*.md"))
)
EACH_DOCUMENT = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)

_LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RULER = re.compile(r"\|[\s:|-]+$")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def without_code(text: str) -> str:
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """Return the anchors that a reader of Markdown makes of the headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in _HEADING.findall(without_code(text))
    }


def class_body(module: str, name: str) -> list[ast.stmt]:
    tree = ast.parse((CORE / "src/convfind" / module).read_text())
    return next(
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )


@cache
def rows(document: Path) -> tuple[list[str], ...]:
    """The cells of every table row, headings and rulers left out."""
    lines = without_code(document.read_text()).splitlines()
    return tuple(
        [cell.strip() for cell in line.strip("|").split("|")]
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if line.startswith("|") and not _RULER.match(line) and not _RULER.match(following)
    )


@EACH_DOCUMENT
def test_links_lead_somewhere(document: Path) -> None:
    text = without_code(document.read_text())
    broken = []
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())
        ):
            broken.append(link)
    assert not broken


@EACH_DOCUMENT
def test_python_in_documents_is_python(document: Path) -> None:
    for language, code in _FENCE.findall(document.read_text()):
        if language == "python":
            ast.parse(code)


def program(path: str) -> ModuleType:
    """Import a program that stands in no package."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_tree_is_that_of_the_docstrings() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    updated = program("docs/architecture_tree.py").updated(page)
    assert updated == page, "run `python docs/architecture_tree.py`"


def test_the_index_of_results_is_that_of_the_data() -> None:
    page = (ROOT / "benchmarks/RESULTS.md").read_text()
    updated = program("benchmarks/results.py").updated(page)
    assert updated == page, "run `python benchmarks/results.py --write`"


def test_benchmarks_begin_with_whole_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    pages = program("docs/site/benchmark_pages.py")
    for device in pages.devices():
        page = pages.page(device)
        tables = [one for one in pages.tables() if one.device == device]
        places = [(page.index(f"{{#{one.name}}}"), one.is_of_networks) for one in tables]
        assert [kind for _, kind in sorted(places)] == sorted(
            (one.is_of_networks for one in tables), reverse=True
        )
        levels = [len(marks) for marks in re.findall(r"^(#+) ", page, re.MULTILINE)]
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        if any(one.is_of_networks for one in tables):
            assert page.index("## Whole networks") < page.index("<figure")


def test_every_comparison_of_networks_is_in_the_overview(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    pages = program("docs/site/benchmark_pages.py")
    overview = pages.overview()
    compared = [one for one in pages.tables() if one.is_of_networks and one.speed_ups()]
    assert compared
    for table in compared:
        assert table.name in overview
        for row in table.rows:
            assert row[0] in overview


def test_the_index_links_every_page() -> None:
    linked = set(_LINK.findall((ROOT / "docs/index.md").read_text()))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= linked


def test_the_index_of_decisions_links_every_record() -> None:
    linked = set(_LINK.findall((ROOT / "docs/adr/index.md").read_text()))
    assert {path.name for path in (ROOT / "docs/adr").glob("0*.md")} <= linked


def test_contributing_has_a_line_for_every_tox_environment() -> None:
    matrix = configparser.ConfigParser(interpolation=None)
    matrix.read(ROOT / "tox.ini")
    names = set(matrix["tox"]["env_list"].split())
    names |= {
        section.removeprefix("testenv:")
        for section in matrix.sections()
        if section.startswith("testenv:") and not section.startswith("testenv:.")
    }
    documented = {row[0].strip("`") for row in rows(ROOT / "CONTRIBUTING.md")}
    assert names <= documented


def test_the_page_on_modes_names_every_mode_enforcement_and_field() -> None:
    first_cells = {row[0] for row in rows(ROOT / "docs/find-modes.md")}
    for name in ("FindMode", "FindEnforce"):
        for statement in class_body("policy.py", name):
            if isinstance(statement, ast.Assign):
                (target,) = statement.targets
                assert isinstance(target, ast.Name)
                assert f"`{target.id}`" in first_cells
    for statement in class_body("policy.py", "Policy"):
        if isinstance(statement, ast.AnnAssign):
            assert isinstance(statement.target, ast.Name)
            assert f"`{statement.target.id}`" in first_cells


def miopen_names() -> list[str]:
    lines = (ROOT / "tests/data/miopen_names.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", miopen_names())
def test_the_parity_table_has_a_row_for(name: str) -> None:
    assert f"`{name}`" in {
        piece for row in rows(PARITY) for piece in re.findall(r"`[^`]+`", row[0])
    }


def test_every_row_of_the_parity_table_names_a_test_that_exists() -> None:
    for row in rows(PARITY):
        assert len(row) == 4, row
        named = re.findall(r"`(?:([\w/.-]+\.py)::)?(test_\w+)`", row[3])
        assert named, f"no test for {row[0]}"
        for path, function in named:
            tree = ast.parse((ROOT / (path or PARITY_TESTS)).read_text())
            assert function in {
                node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
            }, row[0]


def test_the_reference_has_every_public_name_of_core() -> None:
    tree = ast.parse((CORE / "src/convfind/__init__.py").read_text())
    (public,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    shown = [
        name
        for page in (ROOT / "docs/reference/api").glob("*.md")
        for name in re.findall(r"^::: convfind\.(\w+)$", page.read_text(), re.MULTILINE)
    ]
    assert set(public) <= set(shown)
    assert len(shown) == len(set(shown))


def test_the_site_has_a_place_for_every_page_that_teaches() -> None:
    places = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    folders = ("start", "tutorials", "how-to", "explanation", "reference", "solvers")
    pages = {
        path.relative_to(ROOT / "docs").as_posix()
        for folder in folders
        for path in (ROOT / "docs" / folder).rglob("*.md")
    }
    pages |= {path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages <= places
