"""The packages of solvers share `devices_for_tests`, `drawn_shapes` and their like."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "tests"))
