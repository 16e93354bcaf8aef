"""The ROCm that tests run on: the machine's own, else the stand-in for CPUs of this repository."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from convfind.errors import BackendUnavailableError
from convfind_backend_hip.backend import check_runtime

_STANDIN = Path(__file__).parents[3] / "tests" / "standin_rocm"


def _real() -> str:
    """Why there is no ROCm on this machine; empty where there is one."""
    try:
        check_runtime()
    except BackendUnavailableError as exc:
        return str(exc)
    return ""


#: Found before the stand-in takes its place: hip-python looks for libraries once in a process.
_ABSENT = "" if "ROCM_PATH" in os.environ else "ROCM_PATH is not set"
if _ABSENT and _STANDIN.is_dir():
    sys.path.append(str(_STANDIN))
    import standin

    if standin.missing() is None:
        standin.use()
else:
    _ABSENT = _real()


@pytest.fixture(scope="session")
def hiprtc() -> None:
    """Skip without AMD's own compiler; with CONVFIND_REQUIRE_HIPRTC=1 fail instead."""
    if not _ABSENT:
        return
    if os.environ.get("CONVFIND_REQUIRE_HIPRTC") == "1":
        pytest.fail(f"no real hiprtc: {_ABSENT}")
    pytest.skip(f"no real hiprtc: {_ABSENT}")
