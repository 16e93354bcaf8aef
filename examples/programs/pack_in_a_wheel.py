"""Ships records in a package: finds, packs, builds a wheel, and finds again with nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "convfind-our-records"
version = "1.0"
dependencies = ["convfind"]

[project.entry-points.convfind]
our-records = "our_records"

[tool.hatch.build.targets.wheel]
packages = ["our_records"]
"""
HOOKS = '''"""Names the records that the package ships."""

from pathlib import Path

from convfind.plugins import hookimpl


@hookimpl
def convfind_system_databases():
    return sorted(Path(__file__).parent.glob("*.lmdb"))
'''
FIND = [
    *("convfind", "find", "--device", "opencl:cpu", "--json"),
    *("--x", "1,8,16,16", "--w", "8,8,3,3", "--padding", "1"),
]


def run(command: list[str], database: Path, path: Path | None = None) -> str:
    """Run a command with a database, and with a folder of packages if there is one."""
    environment = {**os.environ, "CONVFIND_USER_DB_PATH": str(database)}
    environment |= {"PYTHONPATH": str(path)} if path else {}
    words = [sys.executable, "-m", *command]
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def main() -> None:
    """Do all of it in a folder for the moment."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        package = folder / "project/our_records"
        package.mkdir(parents=True)
        (folder / "project/pyproject.toml").write_text(PROJECT)
        (package / "__init__.py").write_text(HOOKS)

        run([*FIND, "--time-budget", "2"], folder / "here")
        pack = ["convfind", "db", "pack", str(folder / "here"), "--device", "opencl"]
        run([*pack, "--allow-noisy", "--output", str(package / "cpu.lmdb")], folder / "here")

        wheel = next(WheelBuilder(str(folder / "project")).build(directory=str(folder)))
        with zipfile.ZipFile(wheel) as archive:  # as pip does
            archive.extractall(folder / "installed")
        answer = run(FIND, folder / "elsewhere", folder / "installed")
        assert '"system-db"' in answer, answer
        print("found in the wheel, nothing measured")


if __name__ == "__main__":
    main()
