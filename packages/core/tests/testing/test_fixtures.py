"""The pytest fixtures work in a project that only loads the plugin module."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

pytestmark = pytest.mark.slow  # each runs pytest

LOAD = ("-p", "convfind.testing.fixtures")

PLUGIN = """
from convfind.plugins import hookimpl
from convfind.testing import MockBackend

@hookimpl
def convfind_register_backends(register):
    register.add(MockBackend)
"""

TEST = """
from convfind.testing import MockDevice

def test_it(convfind_device):
    assert isinstance(convfind_device, MockDevice)
"""


def test_mock_backend_is_fresh_for_each_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("_", range(2))
        def test_it(mock_backend, _):
            mock_backend.open().allocate(1)
            assert mock_backend.counters.allocations == 1
        """
    )
    pytester.runpytest_subprocess(*LOAD).assert_outcomes(passed=2)


def test_convfind_device_skips_and_says_why(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVFIND_DISABLE_PLUGINS", "1")
    pytester.makepyfile(TEST)
    result = pytester.runpytest_subprocess(*LOAD, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no device: no backend is installed*"])


def test_convfind_device_opens_the_devices_of_installed_backends(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = pytester.mkdir("site")
    (site / "mock_plugin.py").write_text(PLUGIN)
    info = site / "mock_dist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mock-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[convfind]\nmock = mock_plugin\n")
    monkeypatch.setenv("CONVFIND_PLUGINS", "mock")
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")
    pytester.makepyfile(TEST)
    result = pytester.runpytest_subprocess(*LOAD, "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*test_it?mock-0-mock-mock-device? PASSED*"])
