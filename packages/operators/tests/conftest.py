"""What tests of operators share: both kinds of kernels run on every device that is a CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from convfind.device.target import DeviceKind
from convfind.runtime.backend import Device
from convfind_operators.operator import Operator
from convfind_operators.testing import assert_operator

sys.path.append(str(Path(__file__).parents[3] / "tests"))

from devices_for_tests import as_written, mostly_as_written

pytest_plugins = ["convfind.testing.fixtures"]

Check = Callable[..., None]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what compiles kernels: dozens of programs take minutes."""
    if "check" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["as-it-is", "as-a-gpu"])
def check(request: pytest.FixtureRequest, convfind_device: Device) -> Check:
    """Return what checks a problem with the kernels of the device, or with those of GPUs."""
    target, device = convfind_device.target, mostly_as_written(convfind_device)
    if request.param == "as-a-gpu":
        if target.kind is not DeviceKind.CPU:
            pytest.skip("a GPU as it is")
        # What a CPU optimises is its own code, which never gets these kernels.
        target, device = replace(target, kind=DeviceKind.GPU), as_written(convfind_device)

    def checked(problem: Operator, **options: object) -> None:
        assert_operator(problem, device, target=target, **options)

    return checked
