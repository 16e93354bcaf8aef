"""How a CPU stands in for a GPU is what solvers' tests share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "tests"))
