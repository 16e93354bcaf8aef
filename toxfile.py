"""What tox does beyond its settings: wheels of this repository, and libraries that are shared.

An environment gets the packages that ``wheels`` names as their wheels, which is what users get: a
kernel file missing from one fails in the tests, and only there. Hatchling builds a wheel here in
a twentieth of a second; pip takes five, since it installs hatchling anew for each.

What ``shared`` names, groups of ``pyproject.toml``, is installed once for all environments and
linked into those that ask: PyTorch and the OpenCL runtime weigh a gigabyte together, and pytest is
in all. Bytecode has one folder, too.

Environments may run side by side, as threads of one tox: what they share is made once.

A run of the whole matrix keeps none of its environments, which have filled disks. One that is
chosen by ``-e`` stays for the next run.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from tox.config.sets import EnvConfigSet
from tox.execute.request import StdinSource
from tox.plugin import impl
from tox.session.state import State
from tox.tox_env.api import ToxEnv
from tox.tox_env.errors import Fail
from tox.tox_env.python.api import Python

#: The folder that ``set_env`` names.
_BYTECODE = ".bytecode"
_making = Lock()


@impl
def tox_add_env_config(env_conf: EnvConfigSet, state: State) -> None:
    """Declares the settings ``wheels`` and ``shared`` of an environment."""
    env_conf.add_config(
        "wheels",
        of_type=list[str],
        default=[],
        desc="folders of packages, with their extras, that are installed as wheels",
    )
    env_conf.add_config(
        "shared",
        of_type=list[str],
        default=[],
        desc="dependency groups that are installed once for all environments",
    )


@impl
def tox_before_run_commands(tox_env: ToxEnv) -> None:
    """Links what is shared, and installs the wheels."""
    assert isinstance(tox_env, Python)
    with _making:
        folders = [_shared(tox_env, group) for group in tox_env.conf["shared"]]
        wheels = [_wheel(tox_env, package) for package in tox_env.conf["wheels"]]
    if folders:
        (tox_env.env_site_package_dir() / "shared.pth").write_text("\n".join(folders) + "\n")
    if wheels:
        _install(tox_env, wheels)


@impl
def tox_after_run_commands(tox_env: ToxEnv) -> None:
    """Removes the environment, unless it was asked for by name."""
    if tox_env.options.env.is_default_list:
        folder: Path = tox_env.conf["env_dir"]
        shutil.rmtree(folder)
        bytecode: Path = tox_env.core["work_dir"] / _BYTECODE
        shutil.rmtree(bytecode / folder.relative_to(folder.anchor), ignore_errors=True)


def _install(tox_env: Python, wheels: Sequence[str]) -> None:
    """Installs wheels with what they depend on, in place of those of an earlier run."""
    earlier = sorted(
        path.name for path in tox_env.env_site_package_dir().glob("convfind*.dist-info")
    )
    if earlier:
        names = [name.split("-")[0] for name in earlier]
        _pip(tox_env, "uninstall", "--quiet", "--yes", *names)
    _pip(tox_env, "install", "--quiet", *wheels)


def _wheel(tox_env: Python, package: str) -> str:
    """Builds the wheel of a folder, and returns it with the extras that are named behind it."""
    from hatchling.builders.wheel import WheelBuilder  # tox reads this file to learn what it needs

    folder, bracket, extras = package.partition("[")
    root: Path = tox_env.core["tox_root"]
    builder = WheelBuilder(str(root / folder))
    (path,) = builder.build(directory=str(tox_env.conf["env_tmp_dir"] / "wheels"))
    return path + bracket + extras


def _shared(tox_env: Python, group: str) -> str:
    """Returns the folder with the packages of a dependency group, installed where it is missing."""
    groups = tomllib.loads((tox_env.core["tox_root"] / "pyproject.toml").read_text())
    requirements: list[str] = groups["dependency-groups"][group]
    version = tox_env.base_python.version_dot
    digest = hashlib.sha256("\n".join((version, *requirements)).encode()).hexdigest()[:8]
    folder: Path = tox_env.core["work_dir"] / f".{group}-{digest}"
    python = folder / tox_env.env_python().relative_to(tox_env.env_dir)
    packages = folder / tox_env.env_site_package_dir().relative_to(tox_env.env_dir)
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip = (str(python), "-I", "-m", "pip", "install", "--quiet")
        for command in (
            (str(tox_env.env_python()), "-m", "venv", str(folder)),
            (*pip, *requirements),
        ):
            if subprocess.run(command, env=tox_env.environment_variables).returncode:
                raise Fail(f"cannot install the dependency group {group}")
        complete.touch()
    return str(packages)


def _pip(tox_env: Python, *arguments: str) -> None:
    """Runs pip as tox does to set an environment up."""
    command = ("python", "-I", "-m", "pip", *arguments)
    tox_env.execute(command, StdinSource.OFF, run_id="install").assert_success()
