"""Records of other machines whose configs no search could choose: they are carried, and not used.

Kernels with such a config may read and write out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import convfind
from convfind import Config
from convfind.checking.reference import reference_convolution
from convfind.finddb import FindEntry
from convfind.handle import Handle
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing import MockBackend
from convfind.testing.solvers import MockTunable
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.installing import install_pack
from convfind_finddb_tools.packing import write_pack
from convfind_finddb_tools.selection import Selection

SMALL = ConvProblem.forward((2, 4, 6, 6), (8, 4, 3, 3), padding=1)


class Mock:
    """A plugin with the mock backend and a solver that is tuned."""

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(MockBackend)

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.add(MockTunable())


def opened(folder: Path) -> Handle:
    registry = Registry.build([Mock()], load_entry_points=False)
    return convfind.open("mock", registry=registry, settings=Settings(user_db_path=folder))


def by_lines(shell: Any, theirs: Path, ours: Path) -> None:
    """Take records over as JSON Lines."""
    lines = theirs.with_suffix(".jsonl")
    shell("db", "export", theirs, "--format", "jsonl", "--output", lines)
    shell("db", "import", lines, "--to", ours)


def by_pack(shell: Any, theirs: Path, ours: Path) -> None:
    """Install them as a pack."""
    pack = theirs.with_suffix(".lmdb")
    with opened(theirs) as handle:
        target = handle.target
    with Snapshot(theirs) as snapshot:
        write_pack(snapshot, target.identity, Selection(), pack)
    install_pack(pack, ours, {"mock:0": target})


@pytest.mark.parametrize("carry", [by_lines, by_pack])
@pytest.mark.parametrize("config", [{"tile": 3}, {"tile": 1 << 20}, {"tile": True}, {"mr": 1}, {}])
def test_a_config_that_no_search_chooses_is_measured_anew(
    shell: Any, tmp_path: Path, carry: Callable[[Any, Path, Path], None], config: dict[str, Any]
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    with opened(theirs) as handle:
        handle.find(SMALL, mode="normal")
        entry, _, _ = handle.database.own(handle.target, SMALL)
        assert entry is not None
        changed = [
            msgspec.structs.replace(one, config=config, time_ms=1e-6) for one in entry.records
        ]
        new = FindEntry(records=tuple(changed), considered=entry.considered)
        handle.database.store(handle.target, SMALL, new, replace=True)
    carry(shell, theirs, ours)
    x, w = (
        np.random.default_rng(0).standard_normal(s, np.float32)
        for s in ((2, 4, 6, 6), (8, 4, 3, 3))
    )
    with opened(ours) as handle:
        stored = handle.database.lookup(handle.target, SMALL)
        assert stored is not None
        assert [one.config for one in stored.entry.records] == [config]
        found = handle.find(SMALL, mode="normal")
        assert found.measured == 1
        assert found.best.config == Config(tile=1)
        expected = reference_convolution(SMALL, x, w)
        np.testing.assert_allclose(handle.run(found.best, x=x, w=w), expected, atol=1e-5)
