"""Calls that go straight to the kernels notice everything that may change between two of them."""

from __future__ import annotations

import copy
import gc
import os
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from quick_finds import QUICK, addressed
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from convfind.errors import LaunchError
from convfind_torch import convert, places, report
from convfind_torch.modules import layer_of
from convfind_torch.places import HostRun
from convfind_torch.quick_call import QuickCall

KINDS = [nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d]
CONSTANT = pytest.mark.parametrize("constant", [False, True], ids=["read", "bound"])


def module(kind: type[nn.Module] = nn.Conv2d, **given: Any) -> nn.Module:
    return kind(4, 6, 3, padding=1, **given)


def image(rank: int = 2, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 4, *(8, 6, 5)[:rank])


def hastened(plain: nn.Module, x: torch.Tensor, **options: Any) -> nn.Module:
    """Return a converted copy whose calls with such an x go straight to the kernels."""
    model = convert(copy.deepcopy(plain), **QUICK, **options)
    with torch.no_grad():
        for _ in range(3):
            model(x)
    layer = layer_of(model)
    if not addressed(layer):
        pytest.skip("kernels of this device take no addresses")
    assert layer.quick
    return model


def same(model: nn.Module, plain: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Compare two calls, without gradients, and return the first of the two results."""
    with torch.no_grad():
        for _ in range(3):
            y, right = model(x), plain(x)
            torch.testing.assert_close(y, right, atol=1e-4, rtol=1e-4)
            assert y.stride() == right.stride()
    return y


@CONSTANT
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_results_are_those_of_pytorch(kind: type[nn.Module], bias: bool, constant: bool) -> None:
    plain = module(kind, bias=bias)
    x = image(int(kind.__name__[-2]))
    model = hastened(plain, x, constant_weights=constant)
    before = report(model).lines[0].calls
    for _ in range(3):
        x.normal_()
        same(model, plain, x)
        same(model, plain, torch.randn_like(x))
    (line,) = report(model).lines
    assert line.calls == before + 18
    assert line.where in QUICK["solvers"]


@CONSTANT
@pytest.mark.parametrize("depthwise", [False, True])
def test_results_are_channels_last_where_pytorchs_are(depthwise: bool, constant: bool) -> None:
    plain = nn.Conv2d(4, 4, 3, groups=4 if depthwise else 1)
    plain.to(memory_format=torch.channels_last)
    x = image().contiguous(memory_format=torch.channels_last)
    model = hastened(plain, x, constant_weights=constant)
    same(model, plain, x)
    same(model, plain, x.contiguous())
    same(model, plain, x)
    for one in (model, plain):
        one.to(memory_format=torch.contiguous_format)
    same(model, plain, x)
    same(model, plain, x.contiguous())


def _in_place(model: nn.Module) -> None:
    with torch.no_grad():
        model.weight.mul_(-2)
        model.bias.add_(1)


def _by_data(model: nn.Module) -> None:
    model.weight.data.mul_(3)
    model.bias.data.mul_(3)


def _other_data(model: nn.Module) -> None:
    model.weight.data = model.weight.data * 2
    model.bias.data = model.bias.data.flip(0)


def _other_strides(model: nn.Module) -> None:
    model.weight.data = model.weight.data.transpose(2, 3).contiguous().transpose(2, 3)


def _same_memory_turned(model: nn.Module) -> None:
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


def _loaded(model: nn.Module) -> None:
    model.load_state_dict({name: one * 2 for name, one in model.state_dict().items()})


def _assigned(model: nn.Module) -> None:
    state = {name: one * 2 for name, one in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def _stride(model: nn.Module) -> None:
    model.stride = (2, 2)


def _padding(model: nn.Module) -> None:
    model.padding = (0, 2)


def _padding_list(model: nn.Module) -> None:
    model.padding = [0, 2]


def _stride_number(model: nn.Module) -> None:
    model.stride = 2


def _stride_list(model: nn.Module) -> None:
    model.stride = [2, 1]


def _padding_word(model: nn.Module) -> None:
    model.padding = "valid"


def _dilation(model: nn.Module) -> None:
    model.dilation = (2, 1)


CHANGES = [
    *(_in_place, _by_data, _other_data, _other_strides, _same_memory_turned, _other_parameter),
    *(_fewer_channels, _no_bias, _every_second_bias, _loaded, _assigned, _stride, _padding),
    *(_padding_list, _stride_number, _stride_list, _padding_word, _dilation),
]


@CONSTANT
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_module_is_noticed(
    change: Callable[[nn.Module], None], constant: bool
) -> None:
    plain, x = module(), image()
    model = hastened(plain, x, constant_weights=constant)
    for one in (plain, model):
        change(one)
    same(model, plain, x)


@CONSTANT
def test_an_optimizers_steps_are_noticed(constant: bool) -> None:
    plain, x = module(), image()
    model = hastened(plain, x, constant_weights=constant)
    for _ in range(3):
        for one in (plain, model):
            optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
            one(x).square().mean().backward()
            optimizer.step()
        same(model, plain, x)


@CONSTANT
def test_other_types_and_shapes_go_between(constant: bool) -> None:
    plain, x = module(), image()
    model = hastened(plain, x, constant_weights=constant)
    for given in (image(batch=3), x, x[0], x, x.expand(4, 2, 4, 8, 6)[2], x[:, :, ::2], x):
        same(model, plain, given)
    same(model.double(), plain.double(), x.double())
    same(model.float(), plain.float(), x)


@CONSTANT
def test_memory_at_odd_addresses_is_read(constant: bool) -> None:
    plain, x = module(), image()
    model = hastened(plain, x, constant_weights=constant)
    memory = torch.randn(x.numel() + 17)
    for begin in (1, 4, 16, 17):
        same(model, plain, memory[begin : begin + x.numel()].view(x.shape))


def test_a_lazy_sign_is_applied() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    whole = torch.complex(torch.randn_like(x), x)
    turned = whole.conj().imag
    assert turned.is_neg()
    same(model, plain, turned)
    same(model, plain, torch._neg_view(x))
    plain.bias = model.bias = nn.Parameter(torch._neg_view(plain.bias.detach()))
    same(model, plain, x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # `torch.jit`
@CONSTANT
def test_what_goes_on_around_a_call_is_heeded(constant: bool) -> None:
    plain, x = module(), image()
    model = hastened(plain, x, constant_weights=constant)
    seen: list[Any] = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with torch.no_grad():
        right = plain(x)
        with Watching():
            torch.testing.assert_close(model(x), right, atol=1e-4, rtol=1e-4)
        assert torch.ops.aten.convolution.default in seen
        with torch.autocast("cpu", torch.bfloat16):
            assert model(x).dtype is torch.bfloat16
        torch.testing.assert_close(torch.func.vmap(model)(x[None]), right[None])
        traced = torch.jit.trace(model, x)
        assert "aten::_convolution" in str(traced.inlined_graph)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            assert torch.autograd.forward_ad.unpack_dual(model(dual)).tangent is not None
    with torch.inference_mode():
        y = model(x)
        assert y.is_inference()
        torch.testing.assert_close(y, right, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(model(x.clone()), right, atol=1e-4, rtol=1e-4)
    assert model(x).requires_grad
    same(model, plain, x)


def test_a_program_that_asks_for_the_same_bits_gets_them() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    for flag in (True, False, True):
        with torch.backends.cudnn.flags(enabled=True, deterministic=flag):
            same(model, plain, x)
    assert len(report(model).lines) == 2


def test_hooks_see_each_call() -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    seen: list[str] = []
    model.register_forward_pre_hook(lambda *_: seen.append("before"))
    handle = model.register_forward_hook(lambda owner, given, y: y * 2)
    with torch.no_grad():
        torch.testing.assert_close(model(x), plain(x) * 2, atol=1e-4, rtol=1e-4)
    handle.remove()
    same(model, plain, x)
    assert seen == ["before"] * 4


def test_a_solver_that_fails_is_left_for_pytorch() -> None:
    plain, x = module(), image(batch=7)  # a form of its own, which no other test has
    model = hastened(plain, x)

    def failing(tensors: Any, out: Any) -> None:
        raise LaunchError("out of resources")

    layer = layer_of(model)
    (form, quick), *_ = layer.quick.items()
    assert isinstance(quick, QuickCall)
    kernels = replace(quick.kernels, run=failing)  # type: ignore[arg-type]
    layer.quick[form] = replace(quick, kernels=kernels)
    quick.kernels.way.ready = failing
    same(model, plain, x)
    (line,) = report(model).lines
    assert line.where == "pytorch"
    assert line.reason == "out of resources"


@pytest.mark.parametrize("is_local", [None, False, True])
def test_pytorchs_threads_stay_where_the_caller_computes_alone(
    monkeypatch: pytest.MonkeyPatch, is_local: bool | None
) -> None:
    plain, x = module(), image()
    model = hastened(plain, x)
    (quick,) = layer_of(model).quick.values()
    assert isinstance(quick, QuickCall)
    run = quick.kernels.run
    kernels, released = run._at_addresses, []

    def at_addresses(addresses: Sequence[int]) -> None:
        kernels(addresses)

    at_addresses.is_local = is_local  # type: ignore[attr-defined]
    monkeypatch.setattr(run, "_at_addresses", at_addresses)
    monkeypatch.setattr(places, "release_cores", lambda: released.append(1))
    same(model, plain, x)
    assert len(released) == (0 if is_local else 3)


def test_a_forked_process_leaves_calls_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert len(ran) == 3


@CONSTANT
def test_threads_with_inputs_of_their_own_share_a_module(constant: bool) -> None:
    plain = module()
    images = [image() for _ in range(16)]
    model = hastened(plain, images[0], constant_weights=constant)
    with torch.no_grad():
        right = [plain(x) for x in images]

    def results(x: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            return [model(x) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        for got, expected in zip(pool.map(results, images), right, strict=True):
            for y in got:
                torch.testing.assert_close(y, expected, atol=1e-4, rtol=1e-4)


@CONSTANT
def test_modules_share_a_kernel_and_keep_their_weights(constant: bool) -> None:
    x = image()
    plains = [module() for _ in range(3)]
    models = [hastened(one, x, constant_weights=constant) for one in plains]
    for _ in range(3):
        for model, plain in zip(models, plains, strict=True):
            with torch.no_grad():
                torch.testing.assert_close(model(x), plain(x), atol=1e-4, rtol=1e-4)


@CONSTANT
def test_memory_goes_with_what_it_belongs_to(constant: bool) -> None:
    model = hastened(module(), image(), constant_weights=constant)
    old = StorageWeakRef(model.weight.untyped_storage())
    model.weight.data = model.weight.data.clone()
    assert old.expired()
    x = image()
    with torch.no_grad():
        y = model(x)
    storages = [StorageWeakRef(one.untyped_storage()) for one in (x, y, model.weight)]
    (quick,) = layer_of(model).quick.values()
    assert isinstance(quick, QuickCall)
    gone = [weakref.ref(one) for one in (model.weight, model, layer_of(model))]
    kernels = weakref.ref(quick.kernels.run)
    del x, y, model, quick
    gc.collect()
    assert [one() for one in gone] == [None] * 3
    assert all(one.expired() for one in storages)
    # The kernels of weights that are read in place serve the next module; bound weights are gone.
    assert (kernels() is None) == constant


def test_copies_and_saved_models_begin_anew() -> None:
    model = hastened(module(), image())
    assert not layer_of(copy.deepcopy(model)).quick
    assert isinstance(next(iter(layer_of(model).quick.values())), QuickCall)
