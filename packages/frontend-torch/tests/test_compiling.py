"""``torch.compile(model, backend="convfind")`` computes what the model computes."""

from __future__ import annotations

import copy
import shutil
from typing import Any

import pytest
import torch
from quick_finds import QUICK, assert_close
from torch import nn

from convfind.device.target import DeviceKind
from convfind.errors import SettingsError
from convfind.handle.handle import Handle
from convfind.problem import ConvProblem
from convfind_torch import compiling, report
from convfind_torch.engine import engine
from convfind_torch.options import Options

# PyTorch warns of itself while it compiles.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

OPTIONS = {key: value for key, value in QUICK.items() if key != "mode"}


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet() -> None:
    torch.compiler.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding="same")
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.norm(self.first(x))))


def compiled(model: nn.Module, rest: str = "eager", **more: Any) -> Any:
    options = {**OPTIONS, "mode": "FAST", "rest": rest}
    return torch.compile(model, backend="convfind", options=options, **more)


def calls() -> int:
    return sum(line.calls for line in report().lines if line.layer == "torch.compile")


def test_the_backend_is_found_by_its_name() -> None:
    assert "convfind" in torch._dynamo.list_backends(None)


def test_training_has_pytorchs_values_and_gradients() -> None:
    model, x = Net(), torch.randn(2, 3, 6, 6)
    double = copy.deepcopy(model).double()
    exact = double(x.double())
    exact.square().sum().backward()
    before = calls()
    y = compiled(model, fullgraph=True)(x)
    y.square().sum().backward()
    assert calls() - before == 5
    assert_close(y, exact, torch.float32)
    for got, right in zip(model.parameters(), double.parameters(), strict=True):
        assert_close(got.grad, right.grad, torch.float32)


@pytest.mark.skipif(shutil.which("g++") is None, reason="PyTorch's compiler needs a compiler")
def test_inference_with_pytorchs_compiler_around_convolutions() -> None:
    model = Net().eval()
    run = compiled(model, "inductor", fullgraph=True)
    with torch.no_grad():
        for memory_format in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(2, 3, 6, 6).contiguous(memory_format=memory_format)
            y, right = run(x), model(x)
            torch.testing.assert_close(y, right, atol=1e-4, rtol=1e-4)
            assert y.stride() == right.stride()


def test_parameters_are_bound_without_gradients_and_bound_anew_when_they_change() -> None:
    model, x = Net().eval(), torch.randn(2, 3, 6, 6)
    run = compiled(model)
    with torch.no_grad():
        run(x)
        (bound,) = engine().bound.of(model.first.weight)
        run(x)
        assert engine().bound.of(model.first.weight) == (bound,)
        model.first.weight.mul_(2)
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
        assert engine().bound.of(model.first.weight) != (bound,)


def test_weights_are_not_bound_where_they_are_trained() -> None:
    model = Net()
    compiled(model)(torch.randn(2, 3, 6, 6)).sum().backward()
    assert engine().bound.of(model.first.weight) == ()


def test_other_batch_sizes_and_graph_breaks_are_served() -> None:
    class Broken(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            torch._dynamo.graph_break()
            return self.last(y)

    model = Broken().eval()
    run = compiled(model)
    with torch.no_grad():
        for batch in (1, 3, 5):
            x = torch.randn(batch, 3, 6, 6)
            torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)


def test_autocast_in_a_graph_computes_in_its_type() -> None:
    model, x = Net().eval(), torch.randn(2, 3, 6, 6)
    run = compiled(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        y, right = run(x), model(x)
    assert y.dtype is right.dtype is torch.bfloat16
    torch.testing.assert_close(y, right, atol=0.05, rtol=0.05)


def test_fixed_sizes_may_have_kernels_of_their_own_and_symbolic_ones_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[Options] = []

    def noted(graph: Any, examples: Any, plan: Any) -> Any:
        heard.append(plan.keywords["options"])
        return graph

    monkeypatch.delenv("CONVFIND_FIND_MODE", raising=False)
    monkeypatch.delenv("MIOPEN_FIND_MODE", raising=False)
    monkeypatch.setattr(compiling, "planned_by_sizes", noted)
    torch._dynamo.reset()
    with torch.inference_mode():
        for given in ({}, {"mode": "DYNAMIC_HYBRID"}, {"dynamic_only": True}):
            for is_symbolic in (False, True):
                model = nn.Conv2d(3, 4, 1)
                compiled = torch.compile(
                    model, backend="convfind", options=given, dynamic=is_symbolic
                )
                compiled(torch.randn(2, 3, 6, 6))
    modes = [one.policy_on(DeviceKind.GPU).mode.name for one in heard]
    assert modes == ["HYBRID", *["DYNAMIC_HYBRID"] * 5]
    assert {one.policy_on(DeviceKind.CPU).mode.name for one in heard} == {"DYNAMIC_HYBRID"}


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("mode", ["FAST", "NORMAL"])
def test_what_a_graph_asks_for_is_found_as_one_batch(
    mode: str, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, prepared = list[list[ConvProblem]](), list[str]()
    find_all, prepare = Handle.find_all, Handle.prepare

    def noting_find_all(self: Handle, problems: Any, *args: Any, **how: Any) -> Any:
        assert how["time_budget"] == 4 * len(problems)
        batches.append(list(problems))
        return find_all(self, problems, *args, **how)

    def noting_prepare(self: Handle, solution: Any) -> Any:
        prepared.append(solution.problem)
        return prepare(self, solution)

    def no_find(self: Handle, problem: Any, *args: Any, **how: Any) -> Any:
        raise AssertionError(f"{problem} is found once more")

    monkeypatch.setattr(Handle, "find_all", noting_find_all)
    monkeypatch.setattr(Handle, "prepare", noting_prepare)
    monkeypatch.setattr(Handle, "find", no_find)
    options = {**OPTIONS, "mode": mode, "rest": "eager", "time_budget": 4}
    # Sizes that no other test has.
    model, x = Net(), torch.randn(3, 3, 9 + narrow, 11 + len(mode))
    run = torch.compile(model, backend="convfind", options=options)
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        run(x).square().sum().backward()
    assert len(batches) == 1
    assert len(prepared) == 5
    assert sorted(one.key for one in batches[0]) == sorted(prepared)


def test_an_unknown_option_is_refused_by_name() -> None:
    from convfind_torch.compiling import compile_graph

    graph = torch.fx.symbolic_trace(nn.ReLU())
    with pytest.raises(SettingsError, match="time_budgte"):
        compile_graph(graph, [torch.randn(1)], options={"time_budgte": 1})
    with pytest.raises(SettingsError, match="plan, inductor, eager"):
        compile_graph(graph, [torch.randn(1)], options={"rest": "nothing"})
    with pytest.raises(SettingsError, match="background"):
        compile_graph(graph, [torch.randn(1)], options={"rest": "eager", "background": True})


@pytest.mark.parametrize("is_slower", [True, False])
def test_where_calls_are_asynchronous_a_graph_keeps_what_pytorch_does_faster(
    monkeypatch: pytest.MonkeyPatch, is_slower: bool
) -> None:
    from convfind_torch import comparison
    from convfind_torch.places import HostPlace

    asked = list[list[torch.Tensor]]()

    def timed(place: Any, *functions: Any, replayed: bool = False) -> Any:
        asked.append([function() for function in functions])
        return [1.0] * 3, [0.5 if is_slower and len(asked) > 3 else 2.0] * 3

    monkeypatch.setattr(HostPlace, "is_asynchronous", True)
    monkeypatch.setattr(comparison, "in_turns", timed)
    channels = 4 if is_slower else 5  # routes are remembered for the whole process
    model, other = nn.Conv2d(2, channels, 3), nn.Conv2d(2, channels, 3)
    other.load_state_dict(model.state_dict())
    several = ("direct-naive-fwd", "direct-naive-bwd-weights", "direct-naive-bwd-data")
    options = {**QUICK, "rest": "eager", "keep_faster": True, "solvers": several}
    run = torch.compile(other, backend="convfind", options=options)
    x = torch.randn(3, 2, 5, 5, requires_grad=True)
    for _ in range(2):
        run(x).square().sum().backward()
    torch.testing.assert_close(*asked.pop(), atol=1e-4, rtol=1e-4)  # with gradients
    assert len(asked) == 3
    lines = {line.problem: line for line in report().lines}
    forward = next(line for key, line in lines.items() if key.startswith(f"fwd-3x2x5x5-{channels}"))
    model(x).square().sum().backward()
    assert model.weight.grad is not None
    torch.testing.assert_close(other.weight.grad, 2 * model.weight.grad, atol=1e-3, rtol=1e-3)
    assert forward.calls == (1 if is_slower else 3)


def test_graphs_hold_operators_that_record_nothing() -> None:
    from functorch.compile import aot_function, make_boxed_func

    from convfind_torch.operators import CONVOLUTION
    from convfind_torch.options import Options

    graphs, word = list[Any](), Options.of(**QUICK).word

    def kept(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph)

    def convolved(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = CONVOLUTION(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, word)
        return y

    x, w = torch.randn(2, 3, 6, 6, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)
    aot_function(convolved, kept, kept)(x, w).sum().backward()
    called = {str(node.target) for graph in graphs for node in graph.graph.nodes}
    assert "convfind.convolution_forward.default" in called
    assert "convfind.convolution.default" not in called
    exact_x, exact_w = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    torch.conv2d(exact_x, exact_w, padding=1).sum().backward()
    assert_close(x.grad, exact_x.grad, torch.float32)
    assert_close(w.grad, exact_w.grad, torch.float32)


def test_an_operators_gradients_have_gradients() -> None:
    from convfind_torch.operators import CONVOLUTION
    from convfind_torch.options import Options

    options = Options.of(**{**QUICK, "solvers": None}).word
    x = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(2, dtype=torch.float64, requires_grad=True)

    def convolved(*given: torch.Tensor) -> Any:
        return CONVOLUTION(*given, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, options)

    assert torch.autograd.gradgradcheck(convolved, (x, w, b))


def test_operators_pass_pytorchs_checks() -> None:
    from convfind_torch.operators import CONVOLUTION
    from convfind_torch.options import Options

    x, w = torch.randn(2, 3, 6, 6, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)
    b, word = torch.randn(4, requires_grad=True), Options.of(**QUICK).word
    for layout in (torch.contiguous_format, torch.channels_last):
        data = x.detach().contiguous(memory_format=layout).requires_grad_()
        given = (data, w, b, [1, 1], [1, 0], [1, 1], False, [0, 0], 1, word)
        torch.library.opcheck(CONVOLUTION, given)


@pytest.mark.parametrize("transposed", [False, True])
def test_operators_of_gradients_pass_pytorchs_checks(transposed: bool) -> None:
    from convfind_torch.operators import DATA_GRADIENT, WEIGHT_GRADIENT
    from convfind_torch.options import Options

    word = Options.of(**QUICK).word
    x, w = torch.randn(2, 3, 6, 6), torch.randn(3, 4, 3, 3)
    w = w if transposed else w.transpose(0, 1).contiguous()
    for layout in (torch.contiguous_format, torch.channels_last):
        dy = torch.randn(2, 4, 8, 6) if transposed else torch.randn(2, 4, 6, 4)
        padding = [0, 1] if transposed else [1, 0]
        sizes = ([1, 1], padding, [1, 1], transposed, [0, 0], 1, word)
        given = (dy, x.contiguous(memory_format=layout), w, *sizes)
        for operator in (DATA_GRADIENT, WEIGHT_GRADIENT):
            torch.library.opcheck(operator, given, test_utils=("test_schema", "test_faketensor"))


def test_memory_of_a_compiled_model_goes_with_it() -> None:
    import gc
    import weakref

    model, x = Net().eval(), torch.randn(2, 3, 6, 6)
    run = compiled(model)
    with torch.no_grad():
        run(x)
    (bound,) = engine().bound.of(model.first.weight)
    weights, memory = weakref.ref(model.first.weight), weakref.ref(bound.bound["w"])
    del model, run, bound
    torch.compiler.reset()
    gc.collect()
    assert weights() is None
    assert memory() is None


@pytest.mark.parametrize("constant", [False, True])
def test_operators_of_graphs_go_straight_to_the_kernels(
    monkeypatch: pytest.MonkeyPatch, constant: bool
) -> None:
    from convfind_torch.engine import Engine
    from convfind_torch.operators import CONVOLUTION
    from convfind_torch.options import Options

    word = Options.of(**QUICK, constant_weights=constant).word
    x = torch.randn(2, 3, 7, 5, requires_grad=True)
    w = torch.randn(4, 3, 3, 3, requires_grad=True)
    b = torch.randn(4, requires_grad=True)
    tail = ([2, 1], [1, 0], [1, 1], False, [0, 0], 1)
    usual = Engine.computed
    counted: list[Any] = []

    def noted(self: Engine, call: Any, route: Any) -> torch.Tensor:
        counted.append(call.direction)
        return usual(self, call, route)

    monkeypatch.setattr(Engine, "computed", noted)
    weigh = torch.randn(2, 4, 4, 3)
    forms: list[Any] = [
        lambda y: y * weigh,
        lambda y: y,
        lambda y: y * weigh.contiguous(memory_format=torch.channels_last),
    ]
    for at, form in enumerate([*forms, *forms]):
        with torch.no_grad():
            w.mul_(1.5)
        got = torch.autograd.grad(form(CONVOLUTION(x, w, b, *tail, word)).sum(), (x, w, b))
        y = torch.convolution(x, w, b, *tail)
        right = torch.autograd.grad(form(y).sum(), (x, w, b))
        for one, other in zip(got, right, strict=True):
            torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)
        if at == 0:
            counted.clear()
    again = counted.count("forward")
    assert again == (5 if constant else 0)
    assert len(counted) == again
