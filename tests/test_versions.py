"""What the packages declare: one version, ranges that match it, the dependencies they import."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
OURS = pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
ALL = pytest.mark.parametrize("folder", [*PACKAGES, *EXAMPLES], ids=lambda folder: folder.name)
PLUGINS = pytest.mark.parametrize(
    "folder",
    [folder for folder in (*PACKAGES, *EXAMPLES) if folder.name != "core"],
    ids=lambda folder: folder.name,
)


def project(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return table


def imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


#: Distributions whose import name is another.
IMPORT_NAMES = {"hip-python": "hip", "cuda-bindings": "cuda", "cuda-pathfinder": "cuda"}


def import_names(requirements: Iterable[str]) -> set[str]:
    names = (re.match(r"[\w-]+", text).group() for text in requirements)  # type: ignore[union-attr]
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}


def core_version() -> str:
    return str(project(ROOT / "packages/core")["version"])


def test_there_are_packages_and_an_example() -> None:
    assert {"core", "backend-opencl", "solvers-direct"} <= {folder.name for folder in PACKAGES}
    assert EXAMPLES


def test_intels_runtime_is_wanted_where_it_exists() -> None:
    extra = project(ROOT / "packages/backend-opencl")["optional-dependencies"]["cpu"]
    requirements = [Requirement(text) for text in extra]

    def wanted(machine: str, system: str) -> set[str]:
        here = {"platform_machine": machine, "sys_platform": system}
        return {one.name for one in requirements if not one.marker or one.marker.evaluate(here)}

    assert {"intel-opencl-rt"} <= wanted("x86_64", "linux") & wanted("AMD64", "win32")
    for machine, system in (("aarch64", "linux"), ("arm64", "darwin"), ("x86_64", "darwin")):
        assert not {name for name in wanted(machine, system) if name.startswith("intel-")}


@OURS
def test_every_package_has_the_version_of_core(folder: Path) -> None:
    assert project(folder)["version"] == core_version()


@PLUGINS
def test_plugins_accept_every_patch_release_of_core_and_no_other(folder: Path) -> None:
    major, minor, _ = (int(part) for part in core_version().split("."))
    requirement = f"convfind>={major}.{minor},<{major}.{minor + 1}"
    listed = [text.replace(" ", "") for text in project(folder)["dependencies"]]
    assert requirement in listed


@PLUGINS
def test_plugins_and_frontends_are_found_by_entry_point(folder: Path) -> None:
    group = "torch_dynamo_backends" if folder.name == "frontend-torch" else "convfind"
    assert project(folder)["entry-points"][group]


@ALL
def test_what_is_imported_is_declared_and_nothing_else(folder: Path) -> None:
    modules = [path for path in (folder / "src").rglob("*.py") if "__pycache__" not in path.parts]
    imported = {
        name.split(".")[0]
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        for name in imported_names(node)
    }
    own = {path.name for path in (folder / "src").iterdir()}
    # Fixtures are loaded by pytest, which is there by then.
    outside = imported - sys.stdlib_module_names - own - {"pytest"}
    needed = import_names(project(folder)["dependencies"])
    extras = project(folder).get("optional-dependencies", {}).values()
    assert needed <= outside
    assert outside <= needed | import_names(text for extra in extras for text in extra)


@ALL
def test_every_distribution_is_tested_typed_layered_and_listed(folder: Path) -> None:
    path = folder.relative_to(ROOT).as_posix()
    (package,) = (child.name for child in (folder / "src").iterdir() if child.name[0] != ".")
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    matrix = (ROOT / "tox.ini").read_text()
    assert re.search(rf": {path}(\[[\w,]+\])?\n", matrix)
    assert f"mypy {path}/tests\n" in matrix
    assert f"{path}/tests" in tools["pytest"]["ini_options"]["testpaths"]
    assert f"$MYPY_CONFIG_FILE_DIR/{path}/src" in tools["mypy"]["mypy_path"]
    assert package in tools["importlinter"]["root_packages"]
    assert f"({path}/README.md)" in (ROOT / "README.md").read_text()


@OURS
def test_packages_agree_on_python_and_licence(folder: Path) -> None:
    core = project(ROOT / "packages/core")
    table = project(folder)
    assert table["requires-python"] == core["requires-python"] == ">=3.11"
    assert table["license"] == core["license"] == "MIT"
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.parametrize("name", ["cpu", "nvidia", "amd", "onnx", "torch", "tools"])
def test_requirements_of_a_checkout_are_the_extra_of_core(name: str) -> None:
    lines = (ROOT / f"requirements/{name}.txt").read_text().splitlines()
    paths = [line for line in lines if not line.startswith("#")]
    assert paths[0] == "./packages/core"
    named = set()
    for path in paths[1:]:
        folder, bracket, extras = path.partition("[")
        named.add(str(project(ROOT / folder)["name"]) + bracket + extras)
    extra = project(ROOT / "packages/core")["optional-dependencies"][name]
    major, minor, _ = (int(part) for part in core_version().split("."))
    versions = f">={major}.{minor},<{major}.{minor + 1}"
    assert {f"{text}{versions}" for text in named} == set(extra)


def test_changelog_opens_with_the_version() -> None:
    headings = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(text for text in headings if text != "Unreleased") == core_version()


def test_environments_share_the_opencl_runtime_that_users_get() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    extras = project(ROOT / "packages/backend-opencl")["optional-dependencies"]
    assert groups["opencl-cpu"] == extras["cpu"]


def test_pre_commit_pins_the_versions_of_the_lint_group() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for pin in groups["lint"]:
        assert f"[{pin}]" in hooks
