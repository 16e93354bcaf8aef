"""The package registers its solvers without loading anything else."""

from __future__ import annotations

import subprocess
import sys

from convfind.plugins.registry import Registry
from convfind_solvers_winograd import hooks
from convfind_solvers_winograd.solver_list import solvers


def test_the_hook_registers_the_list() -> None:
    registry = Registry.build([hooks], load_entry_points=False)
    assert not registry.failures
    assert [s.solver_id for s in registry.solvers] == [s.solver_id for s in solvers()]
    assert {"winograd-f6x3-cpu-nchw-fwd", "winograd-f4x3-cpu-nhwc-bwd-data-inline"} <= {
        s.solver_id for s in solvers()
    }


def test_importing_the_hooks_is_light() -> None:
    code = (
        "import sys, convfind_solvers_winograd.hooks; "
        "print(sorted({'convfind_solvers_winograd.cpu', 'pyopencl'} & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert loaded == "[]"
