"""Training steps that go straight to the kernels notice everything that may change in between."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from quick_finds import NAIVE, QUICK, addressed
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from convfind.errors import LaunchError
from convfind_torch import convert, native, report
from convfind_torch.modules import layer_of
from convfind_torch.options import Options
from convfind_torch.places import HostRun

KINDS = [nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d]
Grads = list[torch.Tensor | None]


def module(kind: type[nn.Module] = nn.Conv2d, **given: Any) -> nn.Module:
    return kind(4, 6, 3, padding=1, **given)


def image(rank: int = 2, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 4, *(8, 6, 5)[:rank], requires_grad=True)


def hastened(plain: nn.Module, x: torch.Tensor, **options: Any) -> nn.Module:
    """Return a converted copy whose steps with such an x go straight to the kernels."""
    model = convert(copy.deepcopy(plain), **{**QUICK, **options})
    for _ in range(3):
        model(x).sum().backward()
    x.grad = None
    model.zero_grad()
    layer = layer_of(model)
    if options or addressed(layer):
        assert layer.steps
        return model
    pytest.skip("kernels of this device take no addresses")


def grads(model: nn.Module, x: torch.Tensor, weigh: Any = torch.cos) -> Grads:
    """Return the result of a step, and its gradients of x and the parameters."""
    x.grad = None
    model.zero_grad()
    y = model(x)
    weigh(y).sum().backward()
    return [y, x.grad, *(one.grad for one in model.parameters())]


def assert_same(got: Grads, right: Grads) -> None:
    for one, other in zip(got, right, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, atol=2e-4, rtol=2e-4)
            assert one.stride() == other.stride()


def same(model: nn.Module, plain: nn.Module, x: torch.Tensor, weigh: Any = torch.cos) -> None:
    for _ in range(2):
        assert_same(grads(model, x, weigh), grads(plain, x, weigh))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_results_and_gradients_are_those_of_pytorch(kind: type[nn.Module], bias: bool) -> None:
    plain = module(kind, bias=bias)
    x = image(int(kind.__name__[-2]))
    model = hastened(plain, x)
    before = [line.calls for line in report(model).lines]
    same(model, plain, x)
    same(model, plain, image(int(kind.__name__[-2])))
    lines = report(model).lines
    assert [line.calls for line in lines] == [count + 4 for count in before]
    assert {line.where for line in lines} == set(NAIVE)


def test_nothing_but_the_kernels_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    right = grads(plain, x)

    def usual(*_: object) -> None:
        raise AssertionError("the usual way")

    monkeypatch.setattr("convfind_torch.engine.Engine.compute", usual)
    assert_same(grads(model, x), right)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients_in_any_form_are_taken(layout: torch.memory_format) -> None:
    plain = module()
    plain.to(memory_format=layout)
    x = image().detach().contiguous(memory_format=layout).requires_grad_()
    model = hastened(plain, x)
    other = torch.randn(2, 6, 8, 6)
    forms: list[Callable[[torch.Tensor], torch.Tensor]] = [
        torch.cos,
        lambda y: y,  # a gradient of one number for all
        lambda y: y * other.contiguous(memory_format=torch.channels_last),
        lambda y: y * other.contiguous(),
        lambda y: y.transpose(2, 3) * other.transpose(2, 3).contiguous(),
        lambda y: torch.complex(y, y).conj().imag * other,  # a sign that is lazy
        lambda y: y[:, ::2],
    ]
    for weigh in forms:
        same(model, plain, x, weigh)


def _in_place(model: nn.Module) -> None:
    with torch.no_grad():
        model.weight.mul_(-2)
        model.bias.add_(1)


def _by_data(model: nn.Module) -> None:
    model.weight.data.mul_(3)


def _other_data(model: nn.Module) -> None:
    model.weight.data = model.weight.data * 2


def _turned(model: nn.Module) -> None:
    model.weight.data = model.weight.data.transpose(2, 3)


def _other_parameter(model: nn.Module) -> None:
    model.weight = nn.Parameter(model.weight.detach() + 1)


def _fewer_channels(model: nn.Module) -> None:
    model.weight = nn.Parameter(model.weight.detach()[:5].clone())
    model.bias = nn.Parameter(model.bias.detach()[:5].clone())


def _no_bias(model: nn.Module) -> None:
    model.bias = None


def _every_second_bias(model: nn.Module) -> None:
    model.bias = nn.Parameter(model.bias.detach().repeat(2)[::2])


def _frozen(model: nn.Module) -> None:
    model.weight.requires_grad_(False)


def _frozen_bias(model: nn.Module) -> None:
    model.bias.requires_grad_(False)


def _stride(model: nn.Module) -> None:
    model.stride = (2, 2)


def _padding(model: nn.Module) -> None:
    model.padding = (0, 2)


def _stride_list(model: nn.Module) -> None:
    model.stride = [2, 1]


def _double(model: nn.Module) -> None:
    model.weight.data = model.weight.data.to(torch.float32).flip(0)


CHANGES = [
    *(_in_place, _by_data, _other_data, _turned, _other_parameter, _fewer_channels, _no_bias),
    *(_every_second_bias, _frozen, _frozen_bias, _stride, _padding, _stride_list, _double),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_module_is_noticed(change: Callable[[nn.Module], None]) -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    for one in (plain, model):
        change(one)
    same(model, plain, x)


def test_gradients_are_computed_as_far_as_they_are_wanted() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    for given in (x, x.detach(), x):
        for wants in (True, False, True):
            for one in (plain, model):
                one.weight.requires_grad_(wants)
            same(model, plain, given)
    for names in (["x"], ["weight"], ["bias", "x"]):
        found = []
        for one in (model, plain):
            wanted = [x if name == "x" else getattr(one, name) for name in names]
            found.append(list(torch.autograd.grad(one(x).cos().sum(), wanted)))
        assert_same(*found)


def test_weights_that_change_before_a_backward_pass() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    y = model(x)
    with torch.no_grad():
        model.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with torch.no_grad():
        model.weight.copy_(plain.weight)
    for change in (_other_data, _turned):  # which PyTorch does not count
        found = []
        for one in (model, plain):
            one.zero_grad()
            x.grad = None
            result = one(x)
            change(one)
            result.cos().sum().backward()
            found.append([x.grad, one.weight.grad])
        with torch.no_grad():
            model.weight.copy_(plain.weight)
        assert_same(*found)


def test_what_is_saved_may_come_back_in_another_form() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    right = grads(plain, x)

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().transpose(2, 3).contiguous().transpose(2, 3)

    with torch.autograd.graph.saved_tensors_hooks(turned, lambda tensor: tensor):
        assert_same(grads(model, x), right)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: tensor.double(), lambda tensor: tensor.float()
    ):
        assert_same(grads(model, x), right)
    x.grad = None
    model.zero_grad()
    y: Any = checkpoint(model, x, use_reentrant=False)
    y.cos().sum().backward()
    assert_same([y, x.grad, *(one.grad for one in model.parameters())], right)


def test_gradients_of_gradients_are_pytorchs_formula() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    found = []
    for one in (model, plain):
        (first,) = torch.autograd.grad(one(x).cos().sum(), [x], create_graph=True)
        found.append(list(torch.autograd.grad(first.square().sum(), [x, one.weight])))
    assert_same(*found)
    many = [
        torch.autograd.grad(one(x), [x], torch.ones(3, 2, 6, 8, 6), is_grads_batched=True)[0]
        for one in (model, plain)
    ]
    assert_same(many[:1], many[1:])
    same(model, plain, x)


def test_a_graph_may_be_kept() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    found = []
    for one in (model, plain):
        one.zero_grad()
        x.grad = None
        y = one(x).cos().sum()
        y.backward(retain_graph=True)
        y.backward()
        found.append([x.grad, one.weight.grad, one.bias.grad])
    assert_same(*found)


def test_autocast_is_heeded() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    for _ in range(4):
        found = []
        for one in (model, plain):
            x.grad = None
            one.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                y = one(x)
            y.float().cos().sum().backward()
            found.append([y, x.grad, one.weight.grad, one.bias.grad])
        for got, right in zip(*found, strict=True):
            assert got is not None
            assert right is not None
            assert got.dtype is right.dtype
            torch.testing.assert_close(got, right, atol=0.3, rtol=0.05)
        same(model, plain, x)
    assert found[0][0].dtype is torch.bfloat16


def test_a_program_that_asks_for_the_same_bits_gets_them_backwards_too() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    right = grads(plain, x)
    x.grad = None
    model.zero_grad()
    y = model(x)
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        y.cos().sum().backward()
    assert_same([y, x.grad, *(one.grad for one in model.parameters())], right)
    lines = [line.problem for line in report(model).lines]
    assert len(lines) == 5
    same(model, plain, x)


def test_gradients_that_are_all_pytorchs_are_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (nn.Conv2d, nn.ConvTranspose2d):
        plain, x = module(kind), image()
        solvers = NAIVE[1 if kind is nn.ConvTranspose2d else 0]
        model = hastened(plain, x, solvers=(solvers,))
        calls: list[tuple[bool, ...]] = []
        original = native.convolution_backward

        def counted(*given: Any, original: Any = original, calls: Any = calls) -> Any:
            calls.append(given[-1])
            return original(*given)

        with monkeypatch.context() as patch:
            patch.setattr(native, "convolution_backward", counted)
            before = [line.calls for line in report(model).lines]
            same(model, plain, x)
            assert calls == [(True, True, True)] * 2
            same(model, plain, x.detach())
        lines = report(model).lines
        assert [line.where for line in lines] == [solvers, "pytorch", "pytorch"]
        after = [line.calls for line in lines]
        assert [one - other for one, other in zip(after, before, strict=True)] == [4, 2, 4]


def test_calls_that_are_all_pytorchs_are_its_own() -> None:
    for kind in (nn.Conv2d, nn.ConvTranspose2d):
        plain, x = module(kind), image().detach()
        # Solvers of the one direction that neither call nor gradient is in.
        solvers = (NAIVE[0 if kind is nn.ConvTranspose2d else 1],)
        model = hastened(plain, x, solvers=solvers)
        before = [line.calls for line in report(model).lines]
        assert type(model(x).grad_fn) is type(plain(x).grad_fn)
        same(model, plain, x)
        lines = report(model).lines
        assert {line.where for line in lines} == {"pytorch"}
        assert [line.calls for line in lines] == [count + 3 for count in before]


def test_a_solver_that_fails_is_left_for_pytorch() -> None:
    plain, x = module(), image(batch=9)  # a form of its own, which no other test has
    model = hastened(plain, x)

    def failing(tensors: Any, out: Any) -> None:
        raise LaunchError("out of resources")

    layer = layer_of(model)
    for form, step in list(layer.steps.items()):
        broken = {}
        for name in ("y", "dx", "dw"):
            kernels = getattr(step, name)
            kernels.way.ready = failing
            broken[name] = replace(kernels, run=failing)
        layer.steps[form] = replace(step, **broken)
    same(model, plain, x)
    lines = report(model).lines
    assert {line.where for line in lines} == {"pytorch"}
    assert {line.reason for line in lines} == {"out of resources"}


def test_a_forked_process_leaves_steps_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    process, ran = os.getpid(), []
    run = HostRun.__call__

    def noted(self: Any, tensors: Any, out: torch.Tensor) -> None:
        ran.append(self)
        run(self, tensors, out)

    monkeypatch.setattr(HostRun, "__call__", noted)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: process + 1)
        same(model, plain, x)
        assert not ran
    same(model, plain, x)
    assert len(ran) == 6


def test_threads_with_inputs_of_their_own_share_a_module() -> None:
    plain = module()
    model = hastened(plain, image())
    images = [image() for _ in range(16)]
    right = [torch.autograd.grad(plain(x).cos().sum(), [x, plain.weight]) for x in images]

    def results(x: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
        return [torch.autograd.grad(model(x).cos().sum(), [x, model.weight]) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        for got, expected in zip(pool.map(results, images), right, strict=True):
            for one in got:
                assert_same(list(one), list(expected))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # `torch.jit`
def test_who_watches_sees_pytorchs_operators() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    seen: list[Any] = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    right = grads(plain, x)
    with Watching():
        assert_same(grads(model, x), right)
    aten = torch.ops.aten
    assert {aten.convolution.default, aten.convolution_backward.default} <= {*seen}
    x.grad = None
    model.zero_grad()
    y = model(x)
    seen.clear()
    with Watching():
        y.cos().sum().backward()
    assert aten.convolution_backward.default in seen
    assert_same([y, x.grad, *(one.grad for one in model.parameters())], right)
    same(model, plain, x)


def test_hooks_see_each_call_and_each_gradient() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    seen: list[str] = []
    model.register_forward_hook(lambda *_: seen.append("forward"))
    model.register_full_backward_hook(lambda *_: seen.append("backward"))
    model.weight.register_hook(lambda gradient: gradient * 2)
    plain.weight.register_hook(lambda gradient: gradient * 2)
    same(model, plain, x)
    assert seen == ["forward", "backward"] * 2


def test_copies_and_saved_models_begin_anew() -> None:
    model = hastened(module(), image())
    assert not layer_of(copy.deepcopy(model)).steps


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
@pytest.mark.parametrize("constant", [False, True])
def test_calls_in_autocasts_types_go_straight_to_the_kernels(
    monkeypatch: pytest.MonkeyPatch, kind: type[nn.Module], constant: bool
) -> None:
    plain, x = module(kind), image()
    model = hastened(plain, x)
    layer_of(model).options = Options.of(**QUICK, constant_weights=constant)

    def results() -> Grads:
        x.grad = None
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
            with torch.no_grad():
                again = model(x)
        y.float().cos().sum().backward()
        return [y, again, x.grad, *(one.grad for one in model.parameters())]

    for _ in range(3):
        results()

    def usual(*_: object) -> None:
        raise AssertionError("the usual way")

    with monkeypatch.context() as patch:
        patch.setattr("convfind_torch.engine.Engine.compute", usual)
        patch.setattr("convfind_torch.engine.Engine.computed", usual)
        got = results()
    x.grad = None
    with torch.autocast("cpu", torch.bfloat16):
        right = plain(x)
    right.float().cos().sum().backward()
    exact = [right, right, x.grad, *(one.grad for one in plain.parameters())]
    for one, other in zip(got, exact, strict=True):
        assert one is not None
        assert other is not None
        assert one.dtype is other.dtype
        torch.testing.assert_close(one, other, atol=0.3, rtol=0.05)
    with torch.no_grad():
        model.weight.mul_(-2)
        plain.weight.mul_(-2)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        torch.testing.assert_close(model(x), plain(x), atol=0.1, rtol=0.05)
        assert model(x[0]).shape == plain(x[0]).shape
