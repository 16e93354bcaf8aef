"""A network learns by convfind as it does by PyTorch, in 200 steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="module")
def curves() -> Iterator[tuple[nn.Module, list[float], float]]:
    """A network, its losses in PyTorch, and what rounding alone does to them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for this size others only wait for each other
    torch.manual_seed(0)
    start = network()
    plain, apart = copy.deepcopy(start), copy.deepcopy(start)
    with torch.no_grad():
        for weights in apart.parameters():
            weights.mul_(1 + 1e-7)
    right = losses(plain, plain)
    noise = (abs(one - other) for one, other in zip(losses(apart, apart), right, strict=True))
    yield start, right, max(noise)
    torch.set_num_threads(threads)


@pytest.mark.parametrize("learn", [by_converting, by_compiling, by_the_patch])
def test_losses_are_those_of_pytorch(
    learn: Callable[[nn.Module], list[float]], curves: tuple[nn.Module, list[float], float]
) -> None:
    start, right, noise = curves
    got = learn(copy.deepcopy(start))
    assert sum(right[-20:]) < sum(right[:20])
    assert max(abs(one - other) for one, other in zip(got, right, strict=True)) <= 20 * noise + 1e-4
    assert got[:20] == pytest.approx(right[:20], rel=1e-4, abs=1e-5)
