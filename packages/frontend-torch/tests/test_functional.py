"""The functions compute what PyTorch's compute, in every option, layout and element type."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from quick_finds import QUICK, assert_close

import convfind_torch
from convfind_torch import functional
from convfind_torch.engine import engine
from convfind_torch.route import Route

Case = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]

CASES: dict[str, Case] = {
    "plain": ("conv2d", (2, 4, 7, 6), (6, 4, 3, 3), {}),
    "1d, stride and dilation": ("conv1d", (2, 4, 11), (6, 4, 3), {"stride": 2, "dilation": 2}),
    "3d, padding by axis": ("conv3d", (1, 2, 5, 6, 4), (4, 2, 3, 1, 2), {"padding": (1, 0, 2)}),
    "groups": ("conv2d", (2, 6, 5, 5), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ("conv2d", (2, 6, 5, 5), (6, 1, 3, 3), {"groups": 6, "stride": (2, 1)}),
    "pointwise": ("conv2d", (2, 6, 5, 5), (4, 6, 1, 1), {}),
    "same": ("conv2d", (2, 3, 6, 6), (4, 3, 3, 5), {"padding": "same", "dilation": (1, 2)}),
    "same, one side longer": ("conv2d", (2, 3, 6, 6), (4, 3, 2, 4), {"padding": "same"}),
    "valid": ("conv1d", (2, 3, 6), (4, 3, 2), {"padding": "valid"}),
    "no batch": ("conv2d", (3, 6, 6), (4, 3, 3, 3), {"padding": 1}),
    "transposed": (
        "conv_transpose2d",
        (2, 4, 5, 5),
        (4, 3, 3, 3),
        {"stride": 2, "padding": 1, "output_padding": 1},
    ),
    "transposed, groups": ("conv_transpose1d", (2, 4, 5), (4, 3, 3), {"groups": 2, "dilation": 2}),
    "transposed, 3d": ("conv_transpose3d", (1, 2, 3, 3, 3), (2, 3, 2, 2, 2), {"stride": 2}),
    "transposed, no batch": ("conv_transpose2d", (4, 5, 5), (4, 3, 2, 2), {}),
}
EACH_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
LAYOUTS = (torch.contiguous_format, torch.channels_last)


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with convfind_torch.using(**QUICK):
        yield


def computed(
    module: Any,
    case: Case,
    tensors: tuple[torch.Tensor, ...],
    dy: torch.Tensor | None = None,
) -> tuple[torch.Tensor | None, ...]:
    """The result and the gradients of all tensors."""
    name, _, _, options = case
    leaves = [one.detach().clone().requires_grad_() for one in tensors]
    y = getattr(module, name)(*leaves, **options)
    y.backward(torch.ones_like(y) if dy is None else dy)
    return (y.detach(), *(leaf.grad for leaf in leaves))


def drawn(case: Case, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    name, x, w, options = case
    filters = w[1] * options.get("groups", 1) if "transpose" in name else w[0]
    return tuple(torch.randn(shape).to(dtype) for shape in (x, w, (filters,)))


def ours() -> list[Route]:
    """The routes of the functions that pose a problem: all of them are convfind's."""
    layers = [layer for layer in engine().layers if layer.name == "functional"]
    posed = [one for layer in layers for one in layer.routes if " " not in one.description]
    assert all(route.is_ours for route in posed)
    return posed


@pytest.mark.filterwarnings("ignore:Using padding='same' with even:UserWarning")
@EACH_CASE
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
def test_values_and_gradients_are_those_of_float64(case: Case, dtype: torch.dtype) -> None:
    tensors = drawn(case, dtype)
    double = tuple(one.double() for one in tensors)
    y = getattr(torch.nn.functional, case[0])(*double, **case[3])
    dy = torch.randn(y.shape).to(dtype)
    right = computed(torch.nn.functional, case, double, dy.double())
    for got, exact in zip(computed(functional, case, tensors, dy), right, strict=True):
        assert_close(got, exact, dtype)
    assert ours()


@pytest.mark.parametrize("x_layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("w_layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dy_layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", ["plain", "depthwise", "pointwise", "transposed"])
def test_results_lie_in_memory_as_pytorchs_do(
    name: str, x_layout: Any, w_layout: Any, dy_layout: Any
) -> None:
    case = CASES[name]
    x, w, b = drawn(case, torch.float32)
    tensors = (x.contiguous(memory_format=x_layout), w.contiguous(memory_format=w_layout), b)
    y = getattr(torch, case[0])(*tensors, **case[3])
    dy = torch.randn(y.shape).contiguous(memory_format=dy_layout)
    leaves = computed(functional, case, tensors, dy)
    for got, right in zip(leaves, computed(torch.nn.functional, case, tensors, dy), strict=True):
        assert got is not None
        assert right is not None
        assert got.stride() == right.stride()
        torch.testing.assert_close(got, right, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=3)), ids=str)
def test_only_the_gradients_that_are_wanted_are_computed(wanted: tuple[bool, ...]) -> None:
    tensors = drawn(CASES["plain"], torch.float32)
    for one, wants in zip(tensors, wanted, strict=True):
        one.requires_grad_(wants)
    y = functional.conv2d(*tensors)
    assert y.requires_grad == any(wanted)
    if any(wanted):
        y.sum().backward()
    assert tuple(one.grad is not None for one in tensors) == wanted


def test_tensors_with_gaps_and_overlaps_are_read_as_they_are() -> None:
    w = torch.randn(3, 6, 3, 3).transpose(0, 1)
    for x in (
        torch.randn(2, 3, 9, 16)[..., ::2],
        torch.randn(1, 3, 1, 8).expand(2, 3, 9, 8),
        torch.randn(3, 2, 8, 9).permute(1, 0, 3, 2),
        torch.randn(2, 3, 80)[..., 1:73].unflatten(-1, (9, 8)),
    ):
        right = torch.conv2d(x.double(), w.double())
        assert_close(functional.conv2d(x, w), right, torch.float32)


def test_a_sign_that_is_not_in_memory_counts() -> None:
    """PyTorch keeps the sign of what a conjugate has as its imaginary part apart."""
    x, w = torch.randn(2, 3, 6, 6, dtype=torch.complex64).conj().imag, torch.randn(4, 3, 3, 3)
    assert x.is_neg()
    right = torch.conv2d(x.double(), w.double())
    assert_close(functional.conv2d(x, w), right, torch.float32)
    leaf = torch.randn(2, 3, 6, 6, requires_grad=True)
    dy = torch._neg_view(torch.randn(right.shape))
    (gradient,) = torch.autograd.grad(functional.conv2d(leaf, w), leaf, dy)
    back = torch.nn.functional.conv_transpose2d(dy.resolve_neg().double(), w.double())
    assert_close(gradient, back, torch.float32)


def test_memory_at_an_odd_address_is_used() -> None:
    x, w = torch.randn(1 + 2 * 3 * 6 * 6)[1:].view(2, 3, 6, 6), torch.randn(1 + 108)[1:]
    y = functional.conv2d(x, w.view(4, 3, 3, 3))
    assert_close(y, torch.conv2d(x.double(), w.view(4, 3, 3, 3).double()), torch.float32)


def test_an_empty_batch_has_empty_results_and_gradients_of_zero() -> None:
    x = torch.randn(0, 3, 6, 6, requires_grad=True)
    w = torch.randn(4, 3, 3, 3, requires_grad=True)
    y = functional.conv2d(x, w)
    y.sum().backward()
    assert y.shape == (0, 4, 4, 4)
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert w.grad is not None
    assert not w.grad.any()


def test_autocast_computes_in_its_type_and_gives_gradients_in_that_of_the_tensors() -> None:
    x, w, b = (one.requires_grad_() for one in drawn(CASES["plain"], torch.float32))
    with torch.autocast("cpu", torch.bfloat16):
        y = functional.conv2d(x, w, b)
        right = torch.conv2d(x, w, b)
        assert functional.conv2d(x.double(), w.double(), b.double()).dtype is torch.float64
    assert y.dtype is right.dtype is torch.bfloat16
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is torch.float32
    torch.testing.assert_close(y, right, atol=0.1, rtol=0.02)


@pytest.mark.parametrize("name", ["groups", "transposed"])
def test_gradients_pass_gradcheck_twice(name: str) -> None:
    case = CASES[name]
    tensors = tuple(one.requires_grad_() for one in drawn(case, torch.float64))
    function = getattr(functional, case[0])
    run = lambda *given: function(*given, **case[3])  # noqa: E731
    assert torch.autograd.gradcheck(run, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, tensors, fast_mode=True)


def test_meta_and_fake_tensors_have_the_shapes_of_pytorchs() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, w = torch.empty(2, 3, 6, 6, device="meta"), torch.empty(4, 3, 3, 3, device="meta")
    assert functional.conv2d(x, w, stride=2).shape == (2, 4, 2, 2)
    with FakeTensorMode():
        y = functional.conv2d(torch.empty(2, 3, 6, 6), torch.empty(4, 3, 3, 3), padding=1)
        assert y.shape == (2, 4, 6, 6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own modules
def test_function_transforms_and_forward_gradients_are_pytorchs() -> None:
    x, w = torch.randn(5, 2, 3, 6, 6), torch.randn(4, 3, 3, 3)
    mapped = torch.vmap(lambda one: functional.conv2d(one, w))(x)
    torch.testing.assert_close(mapped[3], torch.conv2d(x[3], w))
    _, tangent = torch.func.jvp(lambda one: functional.conv2d(one, w), (x[0],), (x[1],))
    torch.testing.assert_close(tangent, torch.conv2d(x[1], w))


def test_what_pytorch_refuses_is_refused_in_its_words() -> None:
    x, w = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3)
    for arguments, message in (
        ((x, w[:, :2]), "to have 2 channels"),
        ((x, w.double()), "type"),
        ((x[:, :, :2], w), "(?i)kernel size can't be greater"),
        ((x, w, torch.randn(5)), "(?i)bias"),
    ):
        with pytest.raises(RuntimeError, match=message):
            functional.conv2d(*arguments)
    with pytest.raises(RuntimeError, match="padding='same' is not supported for strided"):
        functional.conv2d(x, w, stride=2, padding="same")


def test_complex_and_whole_numbers_are_pytorchs() -> None:
    x, w = torch.randn(2, 3, 6, 6, dtype=torch.complex64), torch.randn(4, 3, 3, 3) + 0j
    torch.testing.assert_close(functional.conv2d(x, w), torch.conv2d(x, w))
    x, w = torch.randint(9, (2, 3, 6, 6)), torch.randint(9, (4, 3, 3, 3))
    torch.testing.assert_close(functional.conv2d(x, w), torch.conv2d(x, w))


def test_a_program_that_asks_for_the_same_bits_gets_solvers_that_promise_them() -> None:
    x, w = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3)
    # PyTorch's testing modules forbid to set the flag by itself.
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        functional.conv2d(x, w)
    assert any(one.way is not None and one.way.problem.deterministic for one in ours())


def test_a_graph_of_another_backend_holds_convfinds_operator() -> None:
    x, w = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3)
    run = torch.compile(
        lambda one: functional.conv2d(one, w, padding=1).relu(), backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(run(x), torch.conv2d(x, w, padding=1).relu(), atol=1e-4, rtol=1e-4)


def test_threads_share_the_device() -> None:
    from concurrent.futures import ThreadPoolExecutor

    tensors = [drawn(CASES["plain"], torch.float32) for _ in range(16)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda given: _in_thread(given), tensors))
    for y, given in zip(results, tensors, strict=True):
        assert_close(y, torch.conv2d(*(one.double() for one in given)), torch.float32)


def _in_thread(given: tuple[torch.Tensor, ...]) -> torch.Tensor:
    with convfind_torch.using(**QUICK):
        return functional.conv2d(*given)
