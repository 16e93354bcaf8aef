"""``torch.compile(model, backend="convfind")`` computes what the model computes."""

from __future__ import annotations

import copy
import shutil
from typing import Any

import pytest
import torch
from quick_finds import QUICK, assert_close
from torch import nn

from convfind.errors import SettingsError
from convfind_torch import report
from convfind_torch.engine import engine

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


def test_an_unknown_option_is_refused_by_name() -> None:
    from convfind_torch.compiling import compile_graph

    graph = torch.fx.symbolic_trace(nn.ReLU())
    with pytest.raises(SettingsError, match="time_budgte"):
        compile_graph(graph, [torch.randn(1)], options={"time_budgte": 1})
    with pytest.raises(SettingsError, match="plan, inductor, eager"):
        compile_graph(graph, [torch.randn(1)], options={"rest": "nothing"})
    with pytest.raises(SettingsError, match="background"):
        compile_graph(graph, [torch.randn(1)], options={"rest": "eager", "background": True})


class Plain(nn.Module):
    """A network without gaps: every operator is one of a plan's."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Conv2d(4, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.last(y))


def graph_places() -> list[tuple[str, str]]:
    lines = [one for one in report().lines if one.problem.startswith("graph of")]
    return [(one.where, one.reason) for one in lines]


def test_a_graph_without_gradients_is_a_plan_that_follows_its_parameters() -> None:
    networks = pytest.importorskip("convfind_networks")
    if not hasattr(networks.Network, "compile"):
        pytest.skip("convfind-networks makes no plans")
    model, x = Plain().eval(), torch.randn(2, 3, 8, 8)
    run = torch.compile(model, backend="convfind", options={"mode": "FAST", "keep_faster": False})
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
        places = graph_places()
        if any("no installed package" in reason for _, reason in places):
            pytest.skip("nothing that computes the other operators is installed")
        assert ("plan", "nothing of PyTorch's runs inside") in places
        for changed in (model.first.weight, model.norm.running_mean, model.last.weight.data):
            changed.mul_(2).add_(0.1)
            torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)


def test_each_batch_size_and_memory_format_gets_a_plan() -> None:
    networks = pytest.importorskip("convfind_networks")
    if not hasattr(networks.Network, "compile"):
        pytest.skip("convfind-networks makes no plans")
    model = Plain().eval()
    run = torch.compile(model, backend="convfind", options={"mode": "FAST", "keep_faster": False})
    strided = torch.randn(4, 3, 9, 8).to(memory_format=torch.channels_last)
    before = graph_places().count(("plan", "nothing of PyTorch's runs inside"))
    with torch.no_grad():
        for x in (torch.randn(4, 3, 8, 8), torch.randn(3, 3, 8, 8), torch.randn(1, 3, 8, 8)):
            torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
        model.first.weight.mul_(2)
        for x in (torch.randn(3, 3, 8, 8), strided, torch.randn(4, 3, 8, 8), strided[:3]):
            torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
    places = graph_places()
    if any("no installed package" in reason for _, reason in places):
        pytest.skip("nothing that computes the other operators is installed")
    assert places.count(("plan", "nothing of PyTorch's runs inside")) >= before + 4
    assert not [reason for _, reason in places if "sizes may change" in reason]


def test_plans_by_sizes_are_bounded_and_sizes_without_one_are_pytorchs() -> None:
    from convfind_torch.planning import Slower
    from convfind_torch.sizes import MOST_PLANS, BySizes

    class Scaled(nn.Module):
        def forward(self, size: int, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (x.reshape(size, 2) * size,)

    planned: list[int] = []

    def plan(graph: torch.fx.GraphModule, tensors: Any) -> Any:
        (x,) = tensors
        planned.append(len(x))
        if len(x) == 4:
            raise Slower
        return None if len(x) == 3 else graph

    runs = BySizes(torch.fx.symbolic_trace(Scaled()), [3, torch.ones(3, 2)], plan)
    assert not runs.makes_plan([3, torch.ones(3, 2)])
    assert runs.makes_plan([2, torch.ones(2, 2)])
    most = range(4, 2 + MOST_PLANS)
    for size in (2, 3, *most, 30, 2, 3, 4, 30):
        (y,) = runs(size, torch.ones(size, 2))
        assert y.shape == (size, 2)
        assert (y == size).all()
    assert planned == [3, 2, *most], "each once, and no more of them"


def test_a_plan_that_is_slower_leaves_the_whole_graph_to_pytorchs_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("convfind_networks")
    from convfind_torch import compiling, planning

    given: list[torch.fx.GraphModule] = []

    def compiler(rest: str) -> Any:
        def compiled(graph: torch.fx.GraphModule, examples: Any) -> Any:
            given.append(graph)
            return graph

        assert rest == "inductor"
        return compiled

    monkeypatch.setattr(compiling, "_compiler", compiler)
    monkeypatch.setattr(planning, "in_turns", lambda place, ours, own: ([2.0] * 3, [1.0] * 3))
    model, x = Plain().eval(), torch.randn(2, 3, 8, 8)
    run = torch.compile(model, backend="convfind", options={"mode": "FAST"})
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
    if ("pytorch", "PyTorch's own is faster") not in graph_places():
        pytest.skip(f"no plan here: {graph_places()}")
    (graph,) = given
    assert not [node for node in graph.graph.nodes if node.op == "call_module"]


def test_a_plan_serves_by_estimates_until_the_one_behind_it_takes_over() -> None:
    pytest.importorskip("convfind_networks")
    from convfind_torch import background

    model, x = Plain().eval(), torch.randn(2, 3, 8, 8)
    options = {"mode": "NORMAL", "time_budget": 0.1, "keep_faster": False, "background": True}
    run = torch.compile(model, backend="convfind", options=options)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
        if not any(where == "plan" for where, _ in graph_places()):
            pytest.skip(f"no plan here: {graph_places()}")
        for one in background.under_way():
            one.wait()
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
        model.first.weight.mul_(2)
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
    assert ("plan", "nothing of PyTorch's runs inside") in graph_places()


def test_a_plan_follows_parameters_that_changed_while_it_was_found() -> None:
    networks = pytest.importorskip("convfind_networks")
    if not hasattr(networks.Network, "compile"):
        pytest.skip("convfind-networks makes no plans")
    from convfind_torch.engine import engine
    from convfind_torch.options import Options
    from convfind_torch.place import Place
    from convfind_torch.planning import Exported, GraphPlan

    model, x = Plain().eval(), torch.randn(2, 3, 8, 8)
    captured: list[tuple[torch.fx.GraphModule, list[torch.Tensor]]] = []

    def capture(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Any:
        captured.append((graph, examples))
        return graph

    steps: list[str] = []

    def change(stage: str, done: int, total: int, label: str) -> None:
        if not steps:
            model.first.weight.mul_(2)
        steps.append(stage)

    with torch.no_grad():
        torch.compile(model, backend=capture)(x)
        ((graph, examples),) = captured
        place = engine().place(x)
        assert isinstance(place, Place)
        exported = Exported.of(graph, examples)
        plan = GraphPlan(
            exported, examples, Options.of(mode="FAST", keep_faster=False), place, change
        )
        assert steps
        torch.testing.assert_close(plan(*examples)[0], model(x), atol=1e-4, rtol=1e-4)


def test_where_the_better_plan_fails_the_first_one_stays(caplog: pytest.LogCaptureFixture) -> None:
    from convfind_torch.background import Improving

    def failing(on_progress: Any) -> Any:
        raise RuntimeError("out of luck")

    run = Improving(lambda x: (x + 1,), failing)
    run.wait()
    assert run(torch.zeros(1))[0].item() == 1
    assert "the estimated plan stays: out of luck" in caplog.text


def test_nothing_is_found_for_a_plan_that_nobody_holds() -> None:
    from threading import Event

    from convfind_torch.background import Improving

    gone, steps = Event(), []

    def better(on_progress: Any) -> Any:
        gone.wait()
        on_progress("find", 0, 2, "")
        steps.append("after it was gone")

    run = Improving(lambda x: (x,), better)
    thread = run.thread
    del run
    gone.set()
    thread.join()
    assert steps == []


def test_a_graph_that_is_none_for_a_plan_says_why() -> None:
    graph = torch.fx.symbolic_trace(nn.Sigmoid())
    from convfind_torch.options import Options
    from convfind_torch.planning import planned

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert planned(graph, [torch.randn(1)], Options.of(**QUICK)) is None
    assert ("pytorch", "autocast is on") in graph_places()
    assert planned(graph, [3], Options.of(**QUICK)) is None


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
