"""The backend keeps its contract on every device."""

from __future__ import annotations

import pytest
from opencl_testing import NUMBERS

from convfind.testing import assert_backend
from convfind_backend_opencl.backend import OpenCLBackend


@pytest.mark.parametrize("number", NUMBERS)
def test_the_conformance_kit_finds_nothing(number: int) -> None:
    report = assert_backend(OpenCLBackend(), numbers=[number])
    of_library = {"products of the library are right", "epilogues of the library are right"}
    assert set(report.skipped) - {"results appear in wrapped arrays"} == of_library
