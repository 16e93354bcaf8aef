"""A network learns by convfind as it does by PyTorch, in 200 steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from quick_finds import QUICK
from torch import nn

from convfind_torch import convert, patched

# PyTorch warns of itself while it compiles.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

STEPS = 200


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=4),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    )


def losses(model: nn.Module, call: Callable[..., Any]) -> list[float]:
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    found = []
    for _ in range(STEPS):
        x = torch.randn(8, 3, 8, 8)
        target = (x.mean((1, 2, 3)) > 0).long()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(x), target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def by_converting(model: nn.Module) -> list[float]:
    return losses(model, convert(model, **QUICK))


def by_compiling(model: nn.Module) -> list[float]:
    torch.compiler.reset()
    options = {**QUICK, "rest": "eager"}
    return losses(model, torch.compile(model, backend="convfind", options=options))


def by_the_patch(model: nn.Module) -> list[float]:
    with patched(**QUICK):
        return losses(model, model)


@pytest.mark.parametrize("learn", [by_converting, by_compiling, by_the_patch])
def test_losses_are_those_of_pytorch(learn: Callable[[nn.Module], list[float]]) -> None:
    plain = network()
    model, apart = copy.deepcopy(plain), copy.deepcopy(plain)
    right = losses(plain, plain)
    # What rounding alone does to the curve: PyTorch's own, with weights one bit apart.
    with torch.no_grad():
        for weights in apart.parameters():
            weights.mul_(1 + 1e-7)
    noise = [abs(one - other) for one, other in zip(losses(apart, apart), right, strict=True)]
    got = learn(model)
    assert sum(right[-20:]) < sum(right[:20])
    errors = [abs(one - other) for one, other in zip(got, right, strict=True)]
    assert max(errors) <= 20 * max(noise) + 1e-4
    assert got[:20] == pytest.approx(right[:20], rel=1e-4, abs=1e-5)
