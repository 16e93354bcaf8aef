"""Tests of all packages leave the user's folders alone, and each run starts with empty ones.

pytest reads this file before it starts the processes that share its tests, and they and all others
that tests start inherit what is set here.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

# A profile that is named on the command line, as tox does, takes this one's place. A busy machine
# is no reason to fail.
settings.register_profile(
    "quick", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quick")
# What runs elsewhere with more examples, the same ones each time.
settings.register_profile("few", settings.get_profile("quick"), derandomize=True, database=None)

_FOLDERS = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
#: Settings of the user's own would change what tests see; what a test needs, it sets.
_SETTINGS = ("CONVFIND_", "MIOPEN_")
_KEPT = "CONVFIND_REQUIRE_"

#: In the names of tests: PoCL, and Intel's runtime.
_POCL = re.compile(r"-portable-computing-language-|\[Portable\d")
_FASTER = re.compile(r"-intel-r-opencl-|\[Intel\(R\)\d")
_SHARE_OF_POCL = 16
#: What differs between runtimes is tested there, but for a family of solvers and for children of
#: finds, which take seconds each and know no runtime.
_WITH_ALL_RUNTIMES = re.compile(
    "packages/(backend-opencl/tests/(?!gemm/|hostile/test_isolation)|core/)"
)

#: A folder in memory, where databases do not wait for a disk; used if so many bytes are free.
_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30

_home = pytest.StashKey[TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Give the tests a home folder of their own, and what was compiled before."""
    if not hasattr(config, "workerinput"):
        _leave_home(config)
        _use_compiled()


def _use_compiled() -> None:
    """Let compilers keep their programs, here and in all processes that are started from here."""
    folder = os.environ.get("TESTS_COMPILED_DIR")
    if folder:
        modules = str(Path(__file__).parent / "tests/compiling")
        path = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (modules, path)))
        sys.path.append(modules)
        import compiling_hook

        compiling_hook.forget_unused(Path(folder))
        compiling_hook.install()


def _leave_home(config: pytest.Config) -> None:
    # Packages that pip has installed for the user alone are found there.
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())
    home = TemporaryDirectory(
        prefix="convfind-tests-", dir=_memory_folder(), ignore_cleanup_errors=True
    )
    config.stash[_home] = home
    for name in list(os.environ):
        if name in _FOLDERS or (name.startswith(_SETTINGS) and not name.startswith(_KEPT)):
            del os.environ[name]
    os.environ["HOME"] = os.environ["USERPROFILE"] = home.name
    if Path(home.name).is_relative_to(_MEMORY):
        # pytest's variable for where its `tmp_path` is.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", home.name)
    # What PoCL compiled is the same in every run, and takes it long.
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is not None:
        os.environ.setdefault("POCL_CACHE_DIR", str(cache.mkdir("pocl")))


def _memory_folder() -> Path | None:
    """Return a folder in memory in which programs may lie, too; None where there is none."""
    if not os.access(_MEMORY, os.W_OK) or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return None
    return _MEMORY if shutil.disk_usage(_MEMORY).free >= _ROOM else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let whoever has the time run everything."""
    parser.addoption(
        "--all-runtimes",
        action="store_true",
        help="Run the tests of solvers and operators with PoCL as often as with other runtimes.",
    )
    parser.addoption("--draws", type=int, default=8, help="Problems that are drawn at random.")
    parser.addoption("--draws-on", default="opencl:cpu", help="The device on which they run.")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to PoCL every sixteenth case of a package where another runtime has all of them.

    It compiles ten times as long, and the same kernels for the same CPU.
    """
    if config.getoption("all_runtimes") or not any(_FASTER.search(item.name) for item in items):
        return
    cases = Counter[Path]()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        path = item.path.as_posix()
        if _POCL.search(item.name) and not _WITH_ALL_RUNTIMES.search(path):
            cases[item.path.parent] += 1
            if cases[item.path.parent] % _SHARE_OF_POCL != 1:
                left.append(item)
                continue
        kept.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the home folder."""
    home = config.stash.get(_home, None)
    if home is not None:
        home.cleanup()
