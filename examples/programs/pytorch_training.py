"""Trains a PyTorch model whose convolutions and their gradients convfind may compute."""

from __future__ import annotations

import torch
from torch import nn

import convfind_torch


def main() -> None:
    """Fit random data for a few steps; print the loss, and who computes each layer."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 8 * 8, 2)
    )
    convfind_torch.convert(model, time_budget=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, target = torch.randn(8, 3, 8, 8), torch.randint(2, (8,))
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(losses)
    for line in convfind_torch.report(model).lines:
        print(line.layer, line.where, line.reason)
    assert losses[-1] < losses[0]


if __name__ == "__main__":
    main()
