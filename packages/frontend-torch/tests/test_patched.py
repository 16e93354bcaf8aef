"""Inside of `patched` every convolution of the process is convfind's; outside none is."""

from __future__ import annotations

import pytest
import torch
from quick_finds import QUICK, assert_close
from torch import nn

from convfind_torch import convert, patched, report
from convfind_torch.layer import anonymous
from convfind_torch.options import Options


@pytest.fixture(autouse=True)
def only_what_a_test_calls() -> None:
    """A layer keeps the last few hundred routes only; other tests have filled it."""
    anonymous("patched", Options.of(**QUICK)).routes.clear()


def calls() -> int:
    return sum(line.calls for line in report().lines if line.layer == "patched")


def test_modules_functions_and_gradients_are_convfinds_inside_and_pytorchs_after() -> None:
    model, x = (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 3, 3)),
        torch.randn(2, 3, 8, 8),
    )
    double = [one.detach().double().requires_grad_() for one in model.parameters()]
    exact = torch.conv_transpose2d(torch.conv2d(x.double(), *double[:2]), *double[2:])
    exact.square().sum().backward()
    before = calls()
    with patched(**QUICK):
        y = model(x)
        y.square().sum().backward()
    inside = calls()
    model(x).sum().backward()
    assert inside - before == 5  # two forward, and the gradients but that of the image
    assert calls() == inside
    assert_close(y.detach(), exact, torch.float32)
    model.zero_grad()


def test_inference_mode_is_patched_too() -> None:
    x, w = torch.randn(2, 3, 8, 8), torch.randn(7, 3, 3, 3)
    before = calls()
    with patched(**QUICK), torch.inference_mode():
        y = torch.conv2d(x.clone(), w.clone())
    assert calls() == before + 1
    torch.testing.assert_close(y, torch.conv2d(x, w), atol=1e-4, rtol=1e-4)


def test_pytorchs_kernels_are_back_whatever_happens() -> None:
    def fail() -> None:
        raise KeyError("inside")

    before = calls()
    with pytest.raises(KeyError), patched(**QUICK):
        fail()
    torch.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3))
    assert calls() == before


def test_gradients_of_gradients_are_those_of_pytorchs_formula() -> None:
    tensors = tuple(
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((1, 2, 5), (3, 2, 3), (3,))
    )
    with patched(**QUICK):
        assert torch.autograd.gradcheck(torch.conv1d, tensors, fast_mode=True)
        assert torch.autograd.gradgradcheck(torch.conv1d, tensors, fast_mode=True)


def test_converted_modules_work_inside() -> None:
    module, x = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8)
    right = module(x)
    convert(module, **QUICK)
    with patched(**QUICK):
        y = module(x)
        y.sum().backward()
    torch.testing.assert_close(y, right, atol=1e-4, rtol=1e-4)


def test_a_graph_that_calls_pytorchs_operators_is_patched() -> None:
    x, w = torch.randn(2, 3, 8, 8), torch.randn(6, 3, 3, 3)
    before = calls()
    with patched(**QUICK):
        y = torch.compile(lambda one: torch.conv2d(one, w).relu(), backend="aot_eager")(x)
    assert calls() == before + 1
    torch.testing.assert_close(y, torch.conv2d(x, w).relu(), atol=1e-4, rtol=1e-4)
