"""A graph without gradients is one plan, for each size of its inputs, wherever that is faster."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from quick_finds import QUICK
from torch import nn

from convfind_torch import ReportLine, report

# PyTorch warns of itself while it compiles.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

needs_a_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="PyTorch's compiler needs a compiler"
)


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet() -> None:
    torch.compiler.reset()


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


def graph_lines(sizes: str = "") -> list[ReportLine]:
    """The report's lines of graphs, or of those for inputs of these sizes."""
    lines = [one for one in report().lines if one.problem.startswith("graph of")]
    return [one for one in lines if one.problem.endswith(sizes)]


def graph_places() -> list[tuple[str, str]]:
    return [(one.where, one.reason) for one in graph_lines()]


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


class Feedforward(nn.Module):
    """A layer of diffusion networks, whose halves are gated, and one of language models."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.after = nn.Linear(16, 128), nn.Linear(64, 16)
        self.gate, self.up = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, g = self.both(x).chunk(2, -1)
        y = self.after(a * nn.functional.gelu(g))
        return y, nn.functional.silu(self.gate(x)) * self.up(x)


def test_gates_are_part_of_their_products(monkeypatch: pytest.MonkeyPatch) -> None:
    networks = pytest.importorskip("convfind_networks")
    if not hasattr(networks.Network, "compile"):
        pytest.skip("convfind-networks makes no plans")
    model, x, plans = Feedforward().eval(), torch.randn(2, 7, 16), list[Any]()
    compile_network = networks.Network.compile

    def compiled(*args: Any, **how: Any) -> Any:
        plans.append(compile_network(*args, **how))
        return plans[-1]

    monkeypatch.setattr(networks.Network, "compile", compiled)
    run = torch.compile(model, backend="convfind", options={"mode": "FAST", "keep_faster": False})
    with torch.no_grad():
        results, right = run(x), model.double()(x.double())
        for got, wanted in zip(results, right, strict=True):
            torch.testing.assert_close(got.double(), wanted, atol=1e-4, rtol=1e-4)
    if any("no installed package" in reason for _, reason in graph_places()):
        pytest.skip("nothing that computes the other operators is installed")
    kinds = [task.problem.kind for task in plans[-1].schedule.tasks]
    assert sorted(kinds) == ["binary"] * 2 + ["conv"] * 4


def test_a_view_of_negated_numbers_is_an_input_as_any_other() -> None:
    pytest.importorskip("convfind_networks")
    model, x = Plain().eval(), torch.randn(2, 3, 8, 8)
    run = torch.compile(model, backend="convfind", options={"mode": "FAST", "keep_faster": False})
    negated = torch.complex(x, x).conj().imag
    assert negated.is_neg()
    with torch.no_grad():
        torch.testing.assert_close(run(negated), model(-x), atol=1e-4, rtol=1e-4)


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


@pytest.mark.parametrize(
    ("rank", "layout"),
    [(2, torch.contiguous_format), (2, torch.channels_last), (3, torch.channels_last_3d)],
    ids=str,
)
def test_results_lie_in_memory_as_pytorchs_do(rank: int, layout: torch.memory_format) -> None:
    networks = pytest.importorskip("convfind_networks")
    if not hasattr(networks.Network, "compile"):
        pytest.skip("convfind-networks makes no plans")

    class Outputs(nn.Module):
        """Images, a sum of them without memory of images, and a vector."""

        def __init__(self) -> None:
            super().__init__()
            kind = nn.Conv2d if rank == 2 else nn.Conv3d
            self.first, self.last = kind(3, 4, 3, padding=1), kind(4, 5, 3)

        def forward(self, x: torch.Tensor, more: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = torch.relu(self.first(x))
            return self.last(y), torch.relu(y + more), y.flatten(2)

    model = Outputs().eval()
    options = {"mode": "FAST", "keep_faster": False}
    run = torch.compile(model, backend="convfind", options=options)
    x, more = torch.randn(2, 3, *(7, 6, 5)[:rank]), torch.randn(1, 4, *(1,) * rank)
    with torch.no_grad():
        for image in (x.contiguous(memory_format=layout), x):
            for got, right in zip(run(image, more), model(image, more), strict=True):
                torch.testing.assert_close(got, right, atol=1e-4, rtol=1e-4)
                assert got.stride() == right.stride()
    if any("no installed package" in reason for _, reason in graph_places()):
        pytest.skip("nothing that computes the other operators is installed")
    assert graph_lines(f"{'x'.join(map(str, x.shape))}, {'x'.join(map(str, more.shape))}")


def test_threads_may_meet_new_sizes_at_once() -> None:
    """PyTorch's exporter changes operators for the whole process; other threads compile by them."""
    pytest.importorskip("convfind_networks")
    linear = nn.Linear(8, 5)
    run = torch.compile(linear, backend="convfind", options={"mode": "FAST", "keep_faster": False})

    def calls(first: int) -> None:
        with torch.no_grad():
            for at in range(10):
                x = torch.randn(1 + (first + at) % 5, 3, 8)
                torch.testing.assert_close(run(x), linear(x), atol=1e-4, rtol=1e-4)

    with ThreadPoolExecutor(8) as pool:
        for one in [pool.submit(calls, first) for first in range(8)]:
            one.result()


def test_views_of_one_another_are_inputs() -> None:
    pytest.importorskip("convfind_networks")

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y.mT + x.sum()

    run = torch.compile(
        function, backend="convfind", options={"mode": "FAST", "keep_faster": False}
    )
    x, before = torch.randn(4, 4), len(graph_places())
    with torch.no_grad():
        for a, b in ((x, x), (x, x.clone()), (x, x.t()), (x[:2], x[2:]), (x[1:3], x[:2])):
            torch.testing.assert_close(run(a, b), function(a, b), atol=1e-4, rtol=1e-4)
    for where, reason in graph_places()[before:]:
        assert where == "plan" or "no installed package" in reason


def test_plans_by_sizes_are_bounded_and_sizes_without_one_are_pytorchs() -> None:
    from convfind_torch.planning import NoPlan
    from convfind_torch.route import Route
    from convfind_torch.sizes import MOST_PLANS, BySizes

    class Scaled(nn.Module):
        def forward(self, size: int, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (x.reshape(size, 2) * size,)

    planned: list[int] = []
    refused = Route("a graph", "no reason")

    def plan(graph: torch.fx.GraphModule, tensors: Any) -> Any:
        (x,) = tensors
        planned.append(len(x))
        if len(x) in (3, 4):
            raise NoPlan(refused)
        return graph

    runs = BySizes(torch.fx.symbolic_trace(Scaled()), [3, torch.ones(3, 2)], plan)
    with pytest.raises(NoPlan):
        runs.plan([3, torch.ones(3, 2)])
    runs.plan([2, torch.ones(2, 2)])
    planned.clear()
    most = range(4, 2 + MOST_PLANS)
    for size in (2, 3, *most, 30, 2, 3, 4, 30):
        (y,) = runs(size, torch.ones(size, 2))
        assert y.shape == (size, 2)
        assert (y == size).all()
    assert planned == [3, *most], "each once, and no more of them"
    assert refused.calls == 4


def operators_in(run: Any, x: torch.Tensor) -> set[str]:
    """The names of PyTorch's operators that a call runs one by one."""
    with torch.profiler.profile() as seen:
        run(x)
    return {event.key for event in seen.key_averages()}


@needs_a_compiler
@pytest.mark.parametrize("background", [False, True])
def test_a_graph_whose_plan_is_slower_is_pytorchs_compilers_as_a_whole(
    background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("convfind_networks")
    from convfind_torch import background as behind
    from convfind_torch import planning

    # Which one is faster here and now does not matter.
    monkeypatch.setattr(planning, "in_turns", lambda place, ours, own: ([2.0] * 3, [1.0] * 3))
    model, x = Plain().eval(), torch.randn(2, 3, 10, 11 + background)
    options = {"mode": "NORMAL", "time_budget": 0.1, "background": background}
    run = torch.compile(model, backend="convfind", options=options)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
        for one in behind.under_way():
            one.wait()
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
        assert "aten::relu" in operators_in(model, x)
        assert "aten::relu" not in operators_in(run, x)
        model.first.weight.mul_(2)
        torch.testing.assert_close(run(x), model(x), atol=1e-4, rtol=1e-4)
    if any("no installed package" in reason for _, reason in graph_places()):
        pytest.skip("nothing that computes the other operators is installed")
    (line,) = graph_lines(f"2x3x10x{11 + background}")
    assert (line.where, line.reason) == ("pytorch", "PyTorch's own is faster")
    assert line.gain == 0.5
    assert line.calls == 4


def test_the_report_counts_the_calls_of_plans() -> None:
    pytest.importorskip("convfind_networks")
    model = Plain().eval()
    options = {"mode": "FAST", "keep_faster": False}
    run = torch.compile(model, backend="convfind", options=options, dynamic=False)
    with torch.no_grad():
        for width in (11, 12, 11, 11):
            run(torch.randn(2, 3, 8, width))
    assert [one.calls for one in graph_lines("2x3x8x11")] == [3]
    assert [one.calls for one in graph_lines("2x3x8x12")] == [1]


@needs_a_compiler
def test_the_report_counts_the_calls_of_what_serves_where_there_is_no_plan() -> None:
    from convfind_torch.compiling import compile_graph

    x = torch.randn(1, 13)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        run = compile_graph(torch.fx.symbolic_trace(nn.Sigmoid()), [x])
        for _ in range(3):
            run(x)
    (line,) = graph_lines("for 1x13")
    assert (line.where, line.calls) == ("pytorch", 3)


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
    from convfind_torch.exported import Exported
    from convfind_torch.options import Options
    from convfind_torch.place import Place
    from convfind_torch.planning import GraphPlan

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
    from convfind_torch.planning import NoPlan, planned

    options = Options.of(**QUICK)
    autocast, refused = torch.autocast("cpu", torch.bfloat16), pytest.raises(NoPlan, match="is on")
    with torch.no_grad(), autocast, refused:
        planned(graph, [torch.randn(1)], options)
    assert ("pytorch", "autocast is on") in graph_places()
    with pytest.raises(NoPlan, match="sizes may change"):
        planned(graph, [3], options)


class Counting(nn.Module):
    """A network that changes what it is given, and counts its calls in a buffer."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.first(x.mul_(2)) * self.calls


@needs_a_compiler
def test_inputs_and_buffers_that_a_graph_changes_are_changed() -> None:
    pytest.importorskip("convfind_networks")
    model, twin = Counting().eval(), Counting().eval()
    twin.load_state_dict(model.state_dict())
    run = torch.compile(model, backend="convfind", options={"mode": "FAST", "keep_faster": False})
    x = torch.randn(2, 3, 8, 8)
    y = x.clone()
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(x), twin(y), atol=1e-3, rtol=1e-3)
            torch.testing.assert_close(x, y)
    assert model.calls.item() == 3
    assert any("it changes an input or a buffer" in reason for _, reason in graph_places())


def test_a_graph_with_parameters_inside_is_none_for_a_plan() -> None:
    pytest.importorskip("convfind_networks")
    from convfind_torch.options import Options
    from convfind_torch.planning import NoPlan, planned

    graph, x = torch.fx.symbolic_trace(nn.Conv2d(3, 4, 3)), torch.randn(1, 3, 8, 8)
    with torch.no_grad(), pytest.raises(NoPlan, match="parameters are inside"):
        planned(graph, [x], Options.of(mode="FAST", keep_faster=False))
