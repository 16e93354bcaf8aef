"""GPUs for tests, `stand_in_gpus`, are what the packages of solvers share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "tests"))
