"""Sets the version of all packages, and builds and checks what a release consists of.

``python .ci/release.py version 0.2.0`` writes the version and the ranges by which packages name
each other; ``build`` makes source distributions, wheels from them, and their hashes.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
RELEASE = ROOT / "build/release"

_OWN = re.compile(r'^version = "[^"]+"$', re.MULTILINE)
_RANGE = re.compile(r'("convfind[\w\-\[\],]*)>=[\d.]+,<[\d.]+"')


def set_version(version: str) -> None:
    """Write a version into every package, and the range of its minor version where it is named."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"error: version {version!r} is not MAJOR.MINOR.PATCH")
    major, minor, _ = map(int, version.split("."))
    bounds = f'>={major}.{minor},<{major}.{minor + 1}"'
    for folder in (*PACKAGES, *EXAMPLES):
        path = folder / "pyproject.toml"
        text = path.read_text(encoding="utf-8")
        if folder in PACKAGES:
            text = _OWN.sub(f'version = "{version}"', text, count=1)
        path.write_text(_RANGE.sub(rf"\g<1>{bounds}", text), encoding="utf-8")


def build() -> None:
    """Build every package into ``build/release``, check the results and write their hashes."""
    RELEASE.mkdir(parents=True, exist_ok=True)
    for old in RELEASE.iterdir():
        old.unlink()
    commit = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    moment = subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()
    os.environ["SOURCE_DATE_EPOCH"] = moment
    for folder in PACKAGES:
        sdist = _made("--sdist", folder)
        with tempfile.TemporaryDirectory() as place:
            with tarfile.open(sdist) as archive:
                archive.extractall(place, filter="data")
            (unpacked,) = Path(place).iterdir()
            _check(folder, _made("--wheel", unpacked))
    files = sorted(RELEASE.iterdir())
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True
    )
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (RELEASE / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def _made(kind: str, folder: Path) -> Path:
    before = set(RELEASE.iterdir())
    command = [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(RELEASE)]
    subprocess.run([*command, str(folder)], check=True, stdout=subprocess.DEVNULL)
    (made,) = set(RELEASE.iterdir()) - before
    return made


def _check(folder: Path, wheel: Path) -> None:
    """End the program where a wheel lacks a file of the package that git knows."""
    source = folder / "src"
    listing = ["git", "-C", str(source), "ls-files"]
    known = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\n")
    with zipfile.ZipFile(wheel) as archive:
        missing = sorted(set(filter(None, known)) - set(archive.namelist()))
    if missing:
        sys.exit(f"error: {wheel.name} lacks {', '.join(missing)}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["version", version]:
            set_version(version)
        case ["build"]:
            build()
        case _:
            sys.exit("usage: release.py version X.Y.Z | release.py build")
