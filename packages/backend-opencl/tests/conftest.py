"""Every OpenCL device there is, found once; tests that need one run on each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.device import OpenCLDevice

# Tests share a module, and read kernel files as a package's data.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]

from opencl_testing import NUMBERS, Runner


@pytest.fixture(scope="session")
def backend() -> OpenCLBackend:
    return OpenCLBackend()


@pytest.fixture(scope="session", params=NUMBERS)
def device(request: pytest.FixtureRequest, backend: OpenCLBackend) -> Iterator[OpenCLDevice]:
    opened = backend.open(str(request.param))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def runner(device: OpenCLDevice) -> Runner:
    return Runner(device)


@pytest.fixture(scope="session")
def python() -> Callable[..., str]:
    """Run a script in a new interpreter and return what it prints."""

    def run(script: str, *arguments: str, **environment: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if "OCL_ICD" not in name}
        paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env=inherited | paths | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
