"""Each wheel holds every file of its package: modules, kernels, the type marker, the licence."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = sorted(
    path.parent
    for pattern in ("packages/*/pyproject.toml", "examples/*/pyproject.toml")
    for path in ROOT.glob(pattern)
)


def source_files(folder: Path) -> set[str]:
    source = folder / "src"
    return {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not any(part.startswith(".") for part in path.relative_to(source).parts)
    }


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_wheel_is_complete(folder: Path, tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
            *("--outdir", str(tmp_path), str(folder)),
        ],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())

    expected = source_files(folder)
    assert expected <= held, f"missing: {sorted(expected - held)}"
    tops = {name.split("/")[0] for name in held if ".dist-info/" not in name}
    assert len(tops) == 1, f"a distribution owns one import package, not {sorted(tops)}"
    assert f"{tops.pop()}/py.typed" in held
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in held)
    assert not [name for name in held if "tests" in Path(name).parts]


@pytest.mark.parametrize(
    "name",
    [
        "core",
        "backend-opencl",
        "solvers-direct",
        "solvers-igemm",
        "solvers-winograd",
        "solvers-fft",
    ],
)
def test_package_ships_kernel_files(name: str) -> None:
    kernels = {Path(file).suffix for file in source_files(ROOT / "packages" / name)}
    assert kernels & {".cl", ".h"}, "the completeness test above would not see a kernel go missing"
