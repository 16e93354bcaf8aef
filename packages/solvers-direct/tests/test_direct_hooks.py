"""The package registers its solvers, last resorts last, without loading anything else."""

from __future__ import annotations

import subprocess
import sys

from convfind.plugins.registry import Registry
from convfind_solvers_direct import hooks
from convfind_solvers_direct.solver_list import solvers


def test_the_hook_registers_the_list() -> None:
    registry = Registry.build([hooks], load_entry_points=False)
    assert not registry.failures
    assert [s.solver_id for s in registry.solvers] == [s.solver_id for s in solvers()]
    assert {"direct-naive-fwd", "direct-naive-bwd-data", "direct-naive-bwd-weights"} <= {
        solver.solver_id for solver in registry.solvers
    }


def test_importing_the_hooks_is_light() -> None:
    code = (
        "import sys, convfind_solvers_direct.hooks; "
        "print(sorted({'convfind_solvers_direct.naive', 'convfind_solvers_direct.window', "
        "'pyopencl'} & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert loaded == "[]"
