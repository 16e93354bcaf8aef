"""The ROCm that tests run on: the machine's own, else the stand-in for CPUs of this repository."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from convfind_backend_hip.backend import check_runtime
from convfind_backend_hip.compile_pool import CompilePool

_TESTS = Path(__file__).parents[3] / "tests"
_STANDIN = _TESTS / "standin_rocm"
sys.path += [str(Path(__file__).parent), str(_TESTS)]
#: Where AMD's and distributions' packages put the library that holds hiprtc.
_PLACES = ("opt/rocm/lib/libhiprtc.so", "usr/lib/*-linux-gnu/libamdhip64.so.?")

#: Asked before the stand-in takes its place: hip-python looks for libraries once in a process.
_GIVEN = os.environ.get("ROCM_PATH")
if _STANDIN.is_dir():
    sys.path.append(str(_STANDIN))
    import standin

    if str(standin.place()) == _GIVEN:
        _GIVEN = None  # from the process that started this one for a part of the tests
    if _GIVEN is None and standin.missing() is None:
        standin.use()
        check_runtime()


@pytest.fixture
def hiprtc(rocm: tuple[str, CompilePool], monkeypatch: pytest.MonkeyPatch) -> CompilePool:
    """Processes with AMD's own compiler. The tests' own process keeps the ROCm that it has."""
    monkeypatch.setenv("ROCM_PATH", rocm[0])
    return rocm[1]


@pytest.fixture(scope="session")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, CompilePool]]:
    """Skip where there is no hiprtc of AMD, or fail for CONVFIND_REQUIRE_HIPRTC=1."""
    rocm = _GIVEN or _rocm(tmp_path_factory)
    if rocm is None:
        reason = f"no hiprtc: neither ROCM_PATH nor {' nor '.join(f'/{p}' for p in _PLACES)}"
        if os.environ.get("CONVFIND_REQUIRE_HIPRTC") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    pool = CompilePool()
    yield rocm, pool
    pool.close()


def _rocm(temporary: pytest.TempPathFactory) -> str | None:
    """A folder for ROCM_PATH with the names that hip-python asks for."""
    found = next((path for place in _PLACES for path in Path("/").glob(place)), None)
    if found is None or found.name == "libhiprtc.so":
        return str(found.parents[1]) if found else None
    # Distributions package no name without a version to those who do not develop.
    library = temporary.mktemp("rocm") / "lib"
    library.mkdir()
    for name in ("libamdhip64.so", "libhiprtc.so"):
        (library / name).symlink_to(found)
    return str(library.parent)
