"""PyTorch's own convolution stays where it is faster, and what was measured is remembered."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_finds import QUICK, assert_close
from torch import nn

import convfind_torch
from convfind.errors import LaunchError
from convfind.types import Direction
from convfind_torch import comparison
from convfind_torch.call import Call
from convfind_torch.engine import Engine
from convfind_torch.geometry import Geometry
from convfind_torch.layer import Layer
from convfind_torch.options import Options
from convfind_torch.place import Place
from convfind_torch.places import HostPlace, open_place

GEOMETRY = Geometry.of(2, 1, 0, 1, False, 0, 1)
COMPARING: dict[str, Any] = {**QUICK, "keep_faster": True}


@pytest.fixture(autouse=True)
def _own_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(tmp_path))


def call(x: torch.Tensor | None = None, **options: Any) -> Call:
    layer = Layer("test", Options.of(**{**COMPARING, **options}))
    x = torch.randn(2, 3, 6, 6) if x is None else x
    return Call(Direction.FORWARD, x, torch.randn(4, 3, 3, 3), None, None, GEOMETRY, layer)


def remember(engine: Engine, given: Call, ours_ms: float, pytorch_ms: float) -> None:
    """Write down a comparison as if it had been measured."""
    place = engine.place(given.x)
    assert not isinstance(place, str)
    policy = given.layer.options.policy
    found = place.handle.find(given.problem, policy.mode, solvers=policy.solvers)
    comparison.record(
        *(engine.comparisons, place, found.best, given.problem), [ours_ms] * 3, [pytorch_ms] * 3
    )


@pytest.mark.parametrize(("pytorch_ms", "is_ours"), [(0.5, False), (1.0, False), (2.0, True)])
def test_the_faster_of_two_that_were_measured_computes(pytorch_ms: float, is_ours: bool) -> None:
    engine, given = Engine(), call()
    remember(engine, given, 1.0, pytorch_ms)
    right = torch.conv2d(given.x.double(), given.w.double())
    assert_close(engine.compute(given), right, torch.float32)
    (route,) = given.layer.routes
    assert route.is_ours == is_ours
    assert route.comparison is not None
    assert route.comparison.gain == pytorch_ms
    assert ("PyTorch's own is faster" in route.reason) != is_ours


def test_a_first_call_measures_both_and_records_it() -> None:
    engine, given = Engine(), call()
    engine.compute(given)
    (route,) = given.layer.routes
    known = route.comparison
    assert known is not None
    assert known.ours_ms > 0
    assert known.pytorch_ms > 0
    assert route.is_ours == (known.gain > 1)
    again, other = call(), Engine()
    other.compute(again)
    (later,) = again.layer.routes
    assert later.comparison == known


def test_a_comparison_under_another_number_of_threads_does_not_count() -> None:
    engine, given = Engine(), call()
    remember(engine, given, 1.0, 1e-6)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        engine.compute(given)
    finally:
        torch.set_num_threads(before)
    (route,) = given.layer.routes
    assert route.comparison is not None
    assert route.comparison.pytorch_ms > 1e-6


def test_a_transposed_call_is_compared_by_itself() -> None:
    x, w = torch.randn(2, 4, 4, 4), torch.randn(4, 3, 3, 3)
    layer = Layer("test", Options.of(**COMPARING))
    transposed = Geometry.of(2, 1, 0, 1, True, 0, 1)
    given = Call(Direction.FORWARD, x, w, None, None, transposed, layer)
    like = torch.empty(2, 3, 6, 6)
    gradient = Call(Direction.BACKWARD_DATA, like, w, x, None, GEOMETRY, layer)
    assert given.problem.plain() == gradient.problem.plain()
    engine = Engine()
    remember(engine, given, 1.0, 1e-6)
    engine.compute(given)
    engine.compute(gradient)
    first, second = layer.routes
    assert first.comparison is not None
    assert second.comparison is not None
    assert first.comparison.pytorch_ms == 1e-6
    assert second.comparison.pytorch_ms > 1e-6


@pytest.mark.parametrize(("pytorch_ms", "is_left"), [(0.5, True), (2.0, False)])
def test_where_calls_are_asynchronous_recording_gradients_is_compared_too(
    monkeypatch: pytest.MonkeyPatch, pytorch_ms: float, is_left: bool
) -> None:
    asked = list[list[torch.Tensor]]()

    def timed(place: Place, *functions: Callable[[], torch.Tensor], replayed: bool = False) -> Any:
        asked.append([function() for function in functions])
        is_whole = len(asked) > 3
        return [1.0] * 3, [pytorch_ms if is_whole else 2.0] * 3

    monkeypatch.setattr(HostPlace, "is_asynchronous", True)
    monkeypatch.setattr(comparison, "in_turns", timed)
    plain = nn.Conv2d(3, 5 if is_left else 7, 3)  # routes are remembered for the whole process
    several = ("direct-naive-fwd", "direct-naive-bwd-data", "direct-naive-bwd-weights")
    ours = convfind_torch.convert(copy.deepcopy(plain), **{**COMPARING, "solvers": several})
    seen, x = list[torch.Tensor](), torch.randn(2, 3, 6, 6, requires_grad=True)
    x.register_hook(seen.append)
    for _ in range(3):
        ours(x).square().sum().backward()
    whole = asked.pop()
    assert len(asked) == 3
    torch.testing.assert_close(*whole, atol=1e-4, rtol=1e-4)  # both gradients of x, by ones
    assert len(seen) == 3  # the caller's hooks do not see what is compared
    torch.testing.assert_close(seen[2], seen[0], atol=1e-3, rtol=1e-3)
    lines = [one for one in convfind_torch.report(ours).lines if "gradients" in one.problem]
    assert [one.where for one in lines] == (["pytorch"] if is_left else [])


def test_without_a_comparison_convfind_computes() -> None:
    engine, given = Engine(), call(keep_faster=False)
    engine.compute(given)
    (route,) = given.layer.routes
    assert route.is_ours
    assert route.comparison is None


def test_problems_that_no_solver_takes_are_pytorchs_with_the_reason() -> None:
    engine, given = Engine(), call(solvers=("direct-naive-bwd-data",))
    torch.testing.assert_close(engine.compute(given), torch.conv2d(given.x, given.w))
    (route,) = given.layer.routes
    assert not route.is_ours
    assert "no solver" in route.reason


def test_a_solver_that_fails_is_left_for_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    def failing(args: object) -> None:
        raise LaunchError("out of resources")

    from dataclasses import replace

    engine, given = Engine(), call(keep_faster=False)
    engine.compute(given)
    (route,) = given.layer.routes
    assert route.way is not None
    route.way = replace(
        route.way,
        convolution=replace(route.way.convolution, invoker=failing),  # type: ignore[arg-type]
    )
    torch.testing.assert_close(engine.compute(given), torch.conv2d(given.x, given.w))
    assert not route.is_ours
    assert route.reason == "out of resources"
    assert "out of resources" in caplog.text


def test_a_way_that_another_thread_gives_up_meanwhile_is_used_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, given = Engine(), call(keep_faster=False)
    right = torch.conv2d(given.x.double(), given.w.double())
    engine.compute(given)
    (route,) = given.layer.routes
    assert route.way is not None

    def given_up(place: object) -> bool:
        route.way = None
        return True

    monkeypatch.setattr(type(route.way.place), "is_usable", property(given_up))
    assert_close(engine.computed(given, route), right, torch.float32)
    assert_close(engine.computed(given, route), right, torch.float32)


def test_a_device_without_a_backend_stays_pytorchs_with_the_reason() -> None:
    assert "no devices of PyTorch's type xpu" in str(open_place(torch.device("xpu")))
    if not torch.cuda.is_available():
        reason = open_place(torch.device("cuda", 0))
        assert isinstance(reason, str)
        assert "cuda" in reason.lower()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_leaves_the_parents_device_alone() -> None:
    engine, given = Engine(), call(keep_faster=False)
    engine.compute(given)
    (route,) = given.layer.routes
    child = os.fork()
    if child == 0:
        os._exit(1 if route.is_ours else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert route.is_ours
