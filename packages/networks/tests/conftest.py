"""Tests of this package share `networks_for_tests`, which lies beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
