"""Converted modules are the modules that they were, and compute by convfind."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import weakref
from collections import OrderedDict
from typing import Any

import pytest
import torch
from quick_finds import QUICK, assert_close
from torch import nn

from convfind.device.target import DeviceKind
from convfind.errors import SettingsError
from convfind.handle import Handle
from convfind.policy import FindMode
from convfind.problem import ConvProblem
from convfind_torch import convert, report, revert
from convfind_torch.layer import anonymous
from convfind_torch.modules import layer_of
from convfind_torch.options import Options, current_options
from convfind_torch.route import Route


def network() -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            first=nn.Conv2d(3, 8, 3, stride=2, padding=1),
            norm=nn.BatchNorm2d(8),
            middle=nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False, padding_mode="reflect"),
            act=nn.ReLU(),
            last=nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1),
        )
    )


def image() -> torch.Tensor:
    return torch.randn(2, 3, 9, 9)


def test_a_converted_model_computes_what_it_did_with_its_gradients() -> None:
    model, x = network(), image()
    double = copy.deepcopy(model).double()
    right = double(x.double())
    right.square().sum().backward()
    y = convert(model, **QUICK)(x)
    y.square().sum().backward()
    assert_close(y, right, torch.float32)
    for got, exact in zip(model.parameters(), double.parameters(), strict=True):
        assert_close(got.grad, exact.grad, torch.float32)
    lines = report(model).lines
    assert {line.layer for line in lines} == {"first", "middle", "last"}
    assert {line.where for line in lines} == set(QUICK["solvers"])
    assert len(lines) == 8  # the first layer's x needs no gradient


def test_a_report_of_a_model_that_is_not_converted_says_so() -> None:
    model = network()
    model(image())
    assert not report(model).lines
    assert "no convolution ran in a converted layer" in str(report(model))


def test_modules_keep_parameters_names_and_hooks() -> None:
    model = network()
    before = {name: id(one) for name, one in model.named_parameters()}
    seen: list[nn.Module] = []
    model.first.register_forward_hook(lambda module, given, y: seen.append(module))
    modules, keys = list(model.modules()), list(model.state_dict())
    convert(model, **QUICK)(image())
    assert all(a is b for a, b in zip(model.modules(), modules, strict=True))
    assert {name: id(one) for name, one in model.named_parameters()} == before
    assert list(model.state_dict()) == keys
    assert seen == [model.first]
    assert isinstance(model.first, nn.Conv2d)


def test_reverting_gives_the_classes_back_and_leaves_nothing() -> None:
    model, plain = network(), network()
    x = image()
    convert(model, **QUICK)(x)
    revert(model)
    assert [type(one) for one in model.modules()] == [type(one) for one in plain.modules()]
    assert [set(vars(one)) for one in model.modules()] == [
        set(vars(one)) for one in plain.modules()
    ]
    assert report(model).lines == ()


def test_a_model_that_is_a_convolution_is_converted() -> None:
    module, x = nn.Conv1d(3, 4, 3), torch.randn(2, 3, 8)
    right = module(x)
    assert convert(module, **QUICK) is module
    torch.testing.assert_close(module(x), right, atol=1e-4, rtol=1e-4)
    (line,) = report(module).lines
    assert line.layer == "Conv1d"


def test_converting_again_changes_the_options() -> None:
    model = convert(nn.Conv2d(3, 4, 3), **QUICK)
    convert(model, **{**QUICK, "keep_faster": True})
    assert layer_of(model).options.keep_faster


def test_subclasses_of_convolutions_are_left_alone() -> None:
    class Own(nn.Conv2d):
        pass

    module = convert(Own(3, 4, 3), **QUICK)
    assert type(module) is Own
    assert report(module).lines == ()


def test_a_saved_model_comes_back_converted_with_its_options() -> None:
    model, x = convert(network().eval(), **QUICK), image()
    right = model(x)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    torch.testing.assert_close(loaded(x), right)
    assert layer_of(loaded.first).options == layer_of(model.first).options
    assert {line.layer for line in report(loaded).lines} == {"first", "middle", "last"}


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("needed", [False, True])
def test_all_that_an_example_runs_is_found_as_one_batch_and_leaves_no_trace(
    needed: bool, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = network().train(), image()[..., : 8 - narrow]
    state = copy.deepcopy(model.state_dict())
    batches = list[list[ConvProblem]]()
    find_all = Handle.find_all

    def noting(self: Handle, problems: Any, *args: Any, **how: Any) -> Any:
        batches.append(list(problems))
        return find_all(self, problems, *args, **how)

    def no_find(self: Handle, problem: Any, *args: Any, **how: Any) -> Any:
        raise AssertionError(f"{problem} is found once more")

    monkeypatch.setattr(Handle, "find_all", noting)
    monkeypatch.setattr(Handle, "find", no_find)
    with torch.set_grad_enabled(needed), torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        assert convert(model, example_inputs=(x,), **QUICK) is model
        (batch,) = batches
        assert all(module.training for module in model.modules())
        assert all(one.grad is None for one in model.parameters())
        for name, before in state.items():
            assert torch.equal(model.state_dict()[name], before), name
        y = model(x)
        if needed:
            y.square().sum().backward()
    lines = report(model).lines
    assert len(lines) == (8 if needed else 3)
    assert sorted(line.problem for line in lines) == sorted(one.key for one in batch)
    assert len(batches) == 1


def test_an_example_that_fails_leaves_the_model_as_it_was() -> None:
    model = network().train()
    with pytest.raises(RuntimeError, match="channels"):
        convert(model, example_inputs=torch.randn(2, 4, 9, 9), **QUICK)
    assert [type(one) for one in model] == [type(one) for one in network()]
    assert all(module.training for module in model.modules())


def test_copies_have_routes_of_their_own() -> None:
    model = convert(network(), **QUICK)
    model(image())
    other = copy.deepcopy(model)
    assert report(other).lines == ()
    assert len(report(model).lines) == 3


def test_a_state_dict_goes_both_ways() -> None:
    plain, converted = network(), convert(network(), **QUICK)
    converted.load_state_dict(plain.state_dict())
    plain.load_state_dict(converted.state_dict())
    x = image()
    torch.testing.assert_close(converted(x), plain(x), atol=1e-4, rtol=1e-4)


def test_options_that_do_not_exist_are_refused_before_anything_is_converted() -> None:
    model = nn.Conv2d(3, 4, 3)
    with pytest.raises(SettingsError, match="time_budgte"):
        convert(model, time_budgte=1)  # type: ignore[call-arg]
    assert type(model) is nn.Conv2d


def test_an_exported_model_holds_pytorchs_operators() -> None:
    model = convert(network().eval(), **QUICK)
    program = torch.export.export(model, (image(),))
    targets = {str(node.target) for node in program.graph.nodes}
    assert "aten.conv2d.default" in targets
    assert not any("convfind" in target for target in targets)


@pytest.mark.parametrize("change", ["version", "data", "storage"])
def test_bound_weights_follow_every_change_of_a_parameter(change: str) -> None:
    model = convert(nn.Conv2d(3, 4, 3, bias=False), **QUICK, constant_weights=True)
    x = image()
    with torch.no_grad():
        first = model(x)
        if change == "version":
            model.weight.mul_(2)
        elif change == "data":
            model.weight.data.mul_(2)
        else:
            model.weight.data = model.weight.data * 2
        torch.testing.assert_close(model(x), first * 2, atol=1e-4, rtol=1e-4)


def test_memory_of_bound_weights_goes_with_the_model() -> None:
    from convfind_torch.engine import engine

    model = convert(nn.Conv2d(3, 4, 3, bias=False), **QUICK, constant_weights=True)
    with torch.no_grad():
        model(image())
    bindings = engine().bound.of(model.weight)
    (binding,) = bindings
    weights, memory = weakref.ref(model.weight), weakref.ref(binding.bound["w"])
    del model, bindings, binding
    gc.collect()
    assert weights() is None
    assert memory() is None


def test_a_layer_goes_with_its_module() -> None:
    model = convert(nn.Conv2d(3, 4, 3), **QUICK)
    model(image())
    layer = weakref.ref(layer_of(model))
    del model
    gc.collect()
    assert layer() is None


def test_calls_that_are_left_to_pytorch_are_counted() -> None:
    model = convert(nn.Conv2d(3, 4, 3), **{**QUICK, "solvers": ("direct-naive-bwd-data",)})
    x, other = image(), torch.randn(1, 3, 5, 5)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(model(x), torch.conv2d(x, model.weight, model.bias))
        model(other)
    calls = {line.problem.split("-")[1]: line.calls for line in report(model).lines}
    assert calls == {"2x3x9x9": 3, "1x3x5x5": 1}
    model(x)
    assert sum(line.calls for line in report(model).lines) == 5


def test_gradients_that_are_all_left_to_pytorch_are_its_own_operators() -> None:
    plain = nn.Conv2d(3, 4, 3)
    options: Any = {"solvers": ("direct-naive-bwd-data",), "keep_faster": False}
    model = convert(copy.deepcopy(plain), mode="FAST", **options)
    names = []
    for _ in range(2):
        x = image()
        for one in (model, plain):
            one.zero_grad()
            one(x).square().sum().backward()
        assert model.weight.grad is not None
        torch.testing.assert_close(model.weight.grad, plain.weight.grad)
        torch.testing.assert_close(model.bias.grad, plain.bias.grad)
        names.append(type(model(x).grad_fn).__name__)
    assert names == ["ConvolutionBackward0"] * 2
    x = image().requires_grad_()
    model(x).sum().backward()  # the gradient of x is convfind's
    right = torch.nn.grad.conv2d_input(x.shape, plain.weight, torch.ones(2, 4, 7, 7))
    torch.testing.assert_close(x.grad, right, atol=1e-4, rtol=1e-4)
    assert "Convolution" in type(model(x).grad_fn).__name__
    assert type(model(x).grad_fn).__name__ != "ConvolutionBackward0"


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_geometry_that_changes_after_a_call_is_seen(kind: type[nn.Conv2d]) -> None:
    plain, x = kind(3, 4, 3), image()
    model = convert(copy.deepcopy(plain), **QUICK)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(model(x), plain(x), atol=1e-4, rtol=1e-4)
        plain.stride = model.stride = (2, 2)
        plain.padding = model.padding = (1, 1)
        for _ in range(2):
            torch.testing.assert_close(model(x), plain(x), atol=1e-4, rtol=1e-4)


def test_known_calls_heed_what_goes_on_around_them() -> None:
    plain, x = nn.Conv2d(3, 4, 3).eval(), image()
    model = convert(copy.deepcopy(plain), **QUICK)
    with torch.no_grad():
        model(x)
        before = report(model).lines[0].calls
        model(x)
        assert report(model).lines[0].calls == before + 1
        assert model(x[0]).shape == plain(x[0]).shape
        with torch.autocast("cpu", torch.bfloat16):
            assert model(x).dtype is torch.bfloat16
        traced = torch.fx.symbolic_trace(nn.Sequential(plain))
        torch.testing.assert_close(torch.func.vmap(model)(x[None]), plain(x)[None])
        torch.testing.assert_close(traced(x), plain(x))
    y = model(x.requires_grad_())
    assert y.requires_grad


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
@pytest.mark.parametrize("moved", ["weight", "bias"])
def test_a_known_call_with_a_parameter_on_another_device_is_pytorchs(
    kind: type[nn.Conv2d], moved: str
) -> None:
    model = convert(kind(3, 4, 3), **QUICK)
    with torch.no_grad():
        model(image())
        (before,) = report(model).lines
        setattr(model, moved, nn.Parameter(getattr(model, moved).to("meta")))
        with contextlib.suppress(RuntimeError, NotImplementedError):  # whatever it does
            model(image())
    (after,) = report(model).lines
    assert before.where in QUICK["solvers"]
    assert after.calls == before.calls


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")
def test_a_known_call_with_a_tensor_of_another_layout_is_pytorchs() -> None:
    model = convert(nn.Conv2d(3, 4, 3), **QUICK)
    with torch.no_grad():
        x = image()
        right = model(x)
        blocked = model(x.to_mkldnn())
        assert blocked.layout is torch._mkldnn
        assert_close(blocked.to_dense(), right.double(), torch.float32)


def test_threads_share_a_converted_model() -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = convert(network().eval(), **QUICK)
    images = [image() for _ in range(8)]
    right = [model(x).detach() for x in images]

    def losses(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        torch.autograd.grad(y.sum(), model.first.weight)
        return y.detach()

    with ThreadPoolExecutor(4) as pool:
        for got, expected in zip(pool.map(losses, images), right, strict=True):
            torch.testing.assert_close(got, expected)


def test_a_model_in_data_parallel_is_converted_inside() -> None:
    x, plain = image(), network().eval()
    right = plain(x)
    model = convert(nn.DataParallel(plain), **QUICK)
    torch.testing.assert_close(model(x), right, atol=1e-4, rtol=1e-4)
    assert {line.layer for line in report(model).lines} == {
        "module.first",
        "module.middle",
        "module.last",
    }


@pytest.mark.parametrize("batches", [(1, 4, 2), (3, 1, 3)], ids=str)
def test_each_batch_size_has_its_own_find_and_the_same_results(batches: tuple[int, ...]) -> None:
    plain = network().eval()
    model = convert(copy.deepcopy(plain), **QUICK)
    for batch in batches:
        x = torch.randn(batch, 3, 9, 9)
        torch.testing.assert_close(model(x), plain(x), atol=1e-4, rtol=1e-4)
    assert len(report(model).lines) == 3 * len(set(batches))


def test_autocast_reaches_converted_modules() -> None:
    plain, x = network().eval(), image()
    model = convert(copy.deepcopy(plain), **QUICK)
    with torch.autocast("cpu", torch.bfloat16):
        y, right = model(x), plain(x)
    assert y.dtype is right.dtype is torch.bfloat16
    torch.testing.assert_close(y, right, atol=0.1, rtol=0.05)


def test_fake_and_meta_tensors_go_through_converted_modules() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    model = convert(network().eval(), **QUICK)
    right = model(image()).shape
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert model(torch.empty(2, 3, 9, 9)).shape == right
    assert model.to("meta")(image().to("meta")).shape == right


def test_cudnns_flags_of_speed_change_no_result_on_the_host() -> None:
    model, x = convert(network().eval(), **QUICK), image()
    right = model(x)
    for benchmark in (False, True):
        with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark, allow_tf32=benchmark):
            torch.testing.assert_close(model(x), right, atol=0, rtol=0)
    assert not any("tf32" in line.problem.lower() for line in report(model).lines)


def test_a_modules_first_sizes_count_as_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONVFIND_FIND_MODE", raising=False)
    monkeypatch.delenv("MIOPEN_FIND_MODE", raising=False)
    layer = layer_of(convert(nn.Conv2d(3, 4, 1)))
    assert layer.policy_on(DeviceKind.CPU).mode is FindMode.DYNAMIC_HYBRID
    for form in range(12):
        assert layer.policy_on(DeviceKind.GPU).mode is FindMode.HYBRID
        layer.known.put(form, Route("a form", "met"))
    assert layer.policy_on(DeviceKind.GPU).mode is FindMode.DYNAMIC_HYBRID
    asked = layer_of(convert(nn.Conv2d(3, 4, 1), "dynamic_hybrid"))
    assert asked.policy_on(DeviceKind.GPU).mode is FindMode.DYNAMIC_HYBRID


def test_a_mode_of_the_environment_is_a_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIOPEN_FIND_MODE", "DYNAMIC_HYBRID")
    layer = layer_of(convert(nn.Conv2d(3, 4, 1)))
    assert layer.policy_on(DeviceKind.GPU).mode is FindMode.DYNAMIC_HYBRID


def test_what_the_functions_find_is_not_for_fixed_sizes() -> None:
    assert anonymous("conv2d", current_options()).policy_on(DeviceKind.GPU).dynamic_only


def test_options_in_graphs_say_whether_sizes_are_fixed() -> None:
    for options in (Options(), Options().for_fixed_sizes()):
        copied = Options.from_word(options.word)
        assert copied == options
        assert copied.policy_on(DeviceKind.GPU) == options.policy_on(DeviceKind.GPU)
