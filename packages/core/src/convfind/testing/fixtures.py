"""Fixtures for pytest, loaded with ``-p convfind.testing.fixtures`` or in ``pytest_plugins``.

``mock_backend``: a new `MockBackend`. ``convfind_device``: each device of each installed backend
that compiles kernels, in turn; without devices the test is skipped with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from convfind.errors import ConvfindError
from convfind.plugins.registry import default_registry
from convfind.runtime.backend import Device
from convfind.testing.mock_backend import MockBackend


@pytest.fixture
def mock_backend() -> MockBackend:
    """Return a new backend on host memory."""
    return MockBackend()


@pytest.fixture(scope="session")
def convfind_device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Return an opened device, shared by all tests that run on it."""
    backend, number = request.param
    device = default_registry().backends[backend].open(str(number))
    yield device
    device.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``convfind_device`` once for each device."""
    if "convfind_device" in metafunc.fixturenames:
        metafunc.parametrize("convfind_device", _devices(), indirect=True, scope="session")


@cache
def _devices() -> list[object]:
    """Return every device as a parameter; backends are queried once per session."""
    found: list[object] = []
    reasons = []
    for name, backend in default_registry().backends.items():
        if not backend.languages:
            continue
        try:
            targets = backend.targets()
        except ConvfindError as error:
            reasons.append(f"{name}: {error}")
            continue
        for number, target in enumerate(targets):
            label = re.sub(r"[^a-z0-9]+", "-", f"{target.platform} {target.name}".lower())
            found.append(pytest.param((name, number), id=f"{name}-{number}-{label.strip('-')}"))
    if not found:
        why = "; ".join(reasons) or "no backend is installed"
        found.append(pytest.param(None, marks=pytest.mark.skip(reason=f"no device: {why}")))
    return found
