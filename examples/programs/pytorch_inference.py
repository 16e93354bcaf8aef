"""Runs a PyTorch model through torch.compile with convfind's backend."""

from __future__ import annotations

import torch
from torch import nn


def main() -> None:
    """Compile, run, and compare with PyTorch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 1)).eval()
    x = torch.randn(4, 3, 32, 32)
    fast = torch.compile(model, backend="convfind", options={"time_budget": 2})
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
