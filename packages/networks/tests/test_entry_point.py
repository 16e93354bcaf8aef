"""What opening a device imports of this package: next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import convfind_networks


def test_the_entry_point_imports_nothing_else() -> None:
    code = (
        "import sys, convfind_networks.hooks; "
        "print(*sorted(m for m in sys.modules if m.startswith('convfind_networks')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["convfind_networks", "convfind_networks.hooks"]


@pytest.mark.parametrize("name", convfind_networks.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(convfind_networks, name).__module__.startswith("convfind_networks.")
    assert name in dir(convfind_networks)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = convfind_networks.Nothing
