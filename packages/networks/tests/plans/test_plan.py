"""A plan as a value and as what runs: memory, threads, files, and what it refuses."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from networks_for_tests import graph_of
from plans_for_tests import Layers, compiled, inputs_of

from convfind.device.target import DeviceKind
from convfind.find.recall import Recalled
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins.registry import Registry
from convfind.policy import FindMode
from convfind.runtime.backend import InvokeArgs
from convfind.runtime.tensors import DeviceTensor
from convfind.settings import Settings
from convfind.testing import MOCK_TARGET, MockBackend
from convfind.types import DataType
from convfind_networks import Graph, GraphBuilder, Value
from convfind_networks.errors import BindingError, PlanError, UnsupportedError
from convfind_networks.graph import TensorType
from convfind_networks.ops import Identity, Reduce, ReduceFunction, Reshape, Split, Transpose
from convfind_networks.plan import Place, Plan, compile_graph, layout_choice, plan_file
from convfind_networks.plan.plan_file import new_checksum
from convfind_networks.plan.posing import Posing

safetensors = pytest.importorskip("safetensors")


def small(builder: GraphBuilder, x: Value) -> dict[str, Value]:
    make = Layers(builder)
    a = make.convolution(x, 8)
    return {"y": make.convolution(a, 5, size=1)}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(small, (2, 3, 9, 7))


@pytest.fixture(scope="module")
def plan(handle: Handle, graph: Graph) -> Plan:
    return compiled(handle, graph, channels_last=False)


def aligned(array: np.ndarray[Any, Any], by: int = 0) -> np.ndarray[Any, Any]:
    """Return a copy that begins so many bytes behind a multiple of 64."""
    raw = np.empty(array.nbytes + 128, np.uint8)
    begin = -raw.ctypes.data % 64 + by
    copy: np.ndarray[Any, Any] = raw[begin : begin + array.nbytes].view(array.dtype)
    copy = copy.reshape(array.shape)
    copy[...] = array
    return copy


def test_outputs_and_inputs_are_named_and_typed(plan: Plan) -> None:
    assert [(port.name, str(port.type)) for port in plan.inputs] == [("x0", "float32[2, 3, 9, 7]")]
    assert [(port.name, str(port.type)) for port in plan.outputs] == [("y", "float32[2, 5, 9, 7]")]


def test_a_run_gives_new_memory_each_time(plan: Plan, graph: Graph) -> None:
    first = plan.run(inputs_of(graph))["y"]
    kept = first.copy()
    other = plan.run(inputs_of(graph, seed=1))["y"]
    assert not np.shares_memory(first, other)
    np.testing.assert_array_equal(first, kept)
    assert (first != other).any()


def test_aligned_inputs_are_used_in_place_and_others_copied(plan: Plan, graph: Graph) -> None:
    expected = plan.run(inputs_of(graph))["y"]
    for by, in_place in ((0, True), (4, False)):
        inputs = {name: aligned(x, by) for name, x in inputs_of(graph).items()}
        with plan.bound(inputs) as (memory, _):
            assert memory["input0"].read_only is in_place  # type: ignore[attr-defined]
        np.testing.assert_array_equal(plan.run(inputs)["y"], expected)


def test_tensors_of_the_device_are_inputs(plan: Plan, graph: Graph, handle: Handle) -> None:
    inputs = inputs_of(graph)
    tensors = {name: handle.tensor(x) for name, x in inputs.items()}
    np.testing.assert_array_equal(plan.run(tensors)["y"], plan.run(inputs)["y"])


def test_a_tensor_of_less_memory_than_its_shape_takes_is_refused(
    plan: Plan, graph: Graph, handle: Handle
) -> None:
    (name,) = graph.inputs
    shape = graph.values[name].type.shape
    small = DeviceTensor(handle.session.device.allocate(64), shape, DataType.FLOAT32)
    with pytest.raises(BindingError, match=f"input {name} takes .* its memory has 64"):
        plan.run({name: small})


def test_an_array_that_changes_between_runs_is_read_anew(plan: Plan, graph: Graph) -> None:
    first, second = (inputs_of(graph, seed)["x0"] for seed in (0, 1))
    expected = [plan.run({"x0": x})["y"] for x in (first, second)]
    same = aligned(first)
    got = [plan.run({"x0": same})["y"]]
    same[...] = second
    got.append(plan.run({"x0": same})["y"])
    plan.run({"x0": aligned(first)})
    got.append(plan.run({"x0": same})["y"])
    np.testing.assert_array_equal(got, [*expected, expected[1]])


def test_an_array_that_is_copied_is_read_in_every_run(plan: Plan, graph: Graph) -> None:
    first, second = (inputs_of(graph, seed)["x0"] for seed in (0, 1))
    expected = [plan.run({"x0": x})["y"] for x in (first, second)]
    lies_last = np.ascontiguousarray(np.moveaxis(first, 1, -1))
    for same in (aligned(first, 4), np.moveaxis(lies_last, -1, 1)):
        got = [plan.run({"x0": same})["y"] for _ in range(2)]
        same[...] = second
        got.append(plan.run({"x0": same})["y"])
        np.testing.assert_array_equal(got, [expected[0], *expected])


def test_the_inputs_of_a_run_are_checked_whatever_the_run_before_had(
    plan: Plan, graph: Graph
) -> None:
    inputs = {name: aligned(x) for name, x in inputs_of(graph).items()}
    expected = [plan.run(inputs)["y"] for _ in range(2)]
    with pytest.raises(BindingError, match="no such input: z"):
        plan.run({**inputs, "z": inputs["x0"]})
    with pytest.raises(BindingError, match="x0 is missing"):
        plan.run({})
    with pytest.raises(BindingError, match="input x0 is"):
        plan.run({"x0": inputs["x0"][:1]})
    np.testing.assert_array_equal(plan.run(inputs)["y"], expected[0])
    shape, inputs["x0"].shape = inputs["x0"].shape, (inputs["x0"].size,)
    with pytest.raises(BindingError, match="input x0 is"):
        plan.run(inputs)
    inputs["x0"].shape = shape
    np.testing.assert_array_equal(plan.run(inputs)["y"], expected[1])


def test_outputs_of_any_size_are_the_callers(handle: Handle) -> None:
    """Small ones are copied out of memory that stays bound."""
    for size in (8, 96):
        graph = graph_of(small, (1, 3, size, size))
        plan = compiled(handle, graph, channels_last=False)
        results = [plan.run(inputs_of(graph, seed))["y"] for seed in (0, 1, 0)]
        assert not np.shares_memory(results[0], results[2])
        np.testing.assert_array_equal(results[0], results[2])
        assert (results[0] != results[1]).any()


def test_inputs_in_any_order_of_memory_are_right(plan: Plan, graph: Graph) -> None:
    x = inputs_of(graph)["x0"]
    lies_last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    got = plan.run({"x0": np.moveaxis(lies_last, -1, 1)})["y"]
    np.testing.assert_array_equal(got, plan.run({"x0": x})["y"])


def test_threads_wait_for_each_other(plan: Plan, graph: Graph) -> None:
    inputs = [inputs_of(graph, seed) for seed in range(4)]
    expected = [plan.run(one)["y"] for one in inputs]
    wrong: list[int] = []

    def work(at: int) -> None:
        for _ in range(20):
            if (plan.run(inputs[at])["y"] != expected[at]).any():
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"x0": None}, "input x0 is missing"),
        ({"other": np.zeros(1)}, "no such input: other"),
        ({"x0": np.zeros((2, 3, 9, 7))}, "not float64"),
        ({"x0": np.zeros((1, 3, 9, 7), np.float32)}, r"not float32\[1, 3, 9, 7\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    plan: Plan, graph: Graph, change: dict[str, Any], told: str
) -> None:
    inputs = {name: x for name, x in {**inputs_of(graph), **change}.items() if x is not None}
    with pytest.raises(BindingError, match=told):
        plan.run(inputs)


def test_nothing_waits_between_tasks(plan: Plan, graph: Graph) -> None:
    """All steps of all tasks are one invoker's."""
    with plan.bound(inputs_of(graph)) as (memory, finish):
        plan.invoker(InvokeArgs(**memory))
        plan.handle.synchronize()
        assert finish()["y"].any()


def test_tasks_share_an_arena_that_is_as_small_as_can_be(plan: Plan) -> None:
    assert plan.schedule.lower_bound <= plan.schedule.arena
    assert plan.memory["arena"].size >= plan.schedule.arena
    places = {place.memory for task in plan.schedule.tasks for place in task.places.values()}
    assert places <= {"arena", "constants", "input0", "output0"}


def test_weights_are_kept_as_kernels_read_them_only(plan: Plan) -> None:
    for task in plan.schedule.tasks:
        assert ("w" in task.places) != ("packed" in task.places)


def test_another_batch_size_is_found_only_once(handle: Handle, finds: Any) -> None:
    for batch, is_new in ((2, True), (3, True), (2, False), (3, False)):
        before = len(finds.problems)
        compile_graph(handle, graph_of(small, (batch, 3, 8, 8)), channels_last=False)
        assert (len(finds.problems) > before) is is_new


def test_what_is_beyond_the_budget_is_estimated_and_said(handle: Handle, finds: Any) -> None:
    before = len(finds.problems)
    made = compile_graph(
        handle, graph_of(small, (1, 3, 11, 11)), channels_last=False, time_budget=0
    )
    assert len(finds.problems) == before
    assert made.schedule.notes == ("2 of 2 problems are served by estimates: not measured yet",)
    assert made.explain().to_dict()["notes"] == list(made.schedule.notes)
    printed = str(made.explain())
    assert printed.startswith("\n".join(made.explain().lines))
    for task in made.schedule.tasks:
        assert any(line.startswith(task.node) for line in printed.splitlines())


class Chosen(Exception):
    """Ends a compilation at its finds; has their mode."""


@pytest.mark.parametrize(
    ("kind", "settings", "mode", "expected"),
    [
        (DeviceKind.GPU, {}, None, FindMode.HYBRID),
        (DeviceKind.CPU, {}, None, FindMode.DYNAMIC_HYBRID),
        (DeviceKind.GPU, {"find_mode": FindMode.DYNAMIC_HYBRID}, None, FindMode.DYNAMIC_HYBRID),
        (DeviceKind.GPU, {"find_mode": FindMode.FAST}, "normal", "normal"),
    ],
)
def test_sizes_of_a_plan_do_not_change_and_what_is_asked_for_is_obeyed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    graph: Graph,
    kind: DeviceKind,
    settings: dict[str, Any],
    mode: str | None,
    expected: FindMode | str,
) -> None:
    def noted(handle: Handle, problems: Any, mode: Any, **policy: Any) -> Any:
        raise Chosen(mode)

    monkeypatch.setattr(Handle, "find_all", noted)
    backend = MockBackend(devices=(replace(MOCK_TARGET, identity="", kind=kind),))
    configured = Settings(user_db_path=tmp_path, **settings)
    with (
        handle_for(backend.open(), Registry.build(), configured) as handle,
        pytest.raises(Chosen) as chosen,
    ):
        compile_graph(handle, graph, mode)
    assert chosen.value.args == (expected,)


def test_layouts_follow_recorded_times_once_both_are_recorded(handle: Handle, finds: Any) -> None:
    graph = graph_of(small, (1, 3, 12, 10))
    for last in (False, True):
        made = compile_graph(handle, graph, channels_last=last)
        problems = [task.problem for task in made.schedule.tasks if task.problem.is_measured]
        # A first layer may read an image as it comes.
        assert all(problem.y_layout.channels_last is last for problem in problems)
    before = len(finds.problems)
    chosen = compile_graph(handle, graph)
    assert len(finds.problems) == before
    assert all(task.solution.time_ms for task in chosen.schedule.tasks if task.problem.is_measured)


@pytest.mark.parametrize("in_doubt", [(), ("some@1",)])
def test_times_in_doubt_decide_about_no_layout(
    handle: Handle, monkeypatch: pytest.MonkeyPatch, in_doubt: tuple[str, ...]
) -> None:
    graph = graph_of(small, (1, 3, 12, 10))
    posing = Posing("network", handle, frozenset(), deterministic=False)
    by_rule = posing.prefers_channels_last(graph)

    def recorded(problem: Any, session: Any, policy: Any) -> Recalled:
        is_fast = problem.layout.channels_last is not by_rule
        time: Any = SimpleNamespace(time_ms=1.0 if is_fast else 1e6, over_limit=False)
        return Recalled((time,), in_doubt=frozenset(in_doubt))

    monkeypatch.setattr(layout_choice, "recall", recorded)
    chosen = layout_choice.choose_layouts(posing, graph, handle.policy())
    last = {reads for reads, _ in chosen.nodes.values()}
    assert last == {by_rule if in_doubt else not by_rule}


def test_progress_counts_problems(handle: Handle, graph: Graph) -> None:
    heard: list[tuple[str, int, int]] = []
    compiled(
        handle,
        graph,
        channels_last=False,
        on_progress=lambda stage, done, total, _: heard.append((stage, done, total)),
    )
    assert heard == [("find", 0, 2), ("find", 1, 2), ("find", 2, 2)]


def test_outputs_that_are_inputs_constants_or_twice_the_same_are_right(handle: Handle) -> None:
    def make(builder: GraphBuilder, x: Value) -> dict[str, Value]:
        y = Layers(builder).convolution(x, 4)
        constant = builder.constant(np.arange(3, dtype=np.float32))
        flat = builder.add(Reshape((2, 4 * 35)), y)
        return {"x": builder.add(Identity(), x), "c": constant, "y": y, "again": y, "flat": flat}

    graph = graph_of(make, (2, 3, 7, 5))
    inputs = {"x0": aligned(inputs_of(graph)["x0"])}
    plan = compiled(handle, graph, channels_last=False)
    before = plan.run(inputs)
    got = plan.run(inputs)
    assert not any(np.shares_memory(got[name], before[name]) for name in got)
    np.testing.assert_array_equal(got["x"], inputs["x0"])
    np.testing.assert_array_equal(got["c"], np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(got["y"], got["again"])
    np.testing.assert_array_equal(got["y"].reshape(2, -1), got["flat"])


def test_outputs_within_a_later_output_are_right(handle: Handle, tmp_path: Path) -> None:
    """Memory is as large as the whole, of which the last piece comes first here."""

    def make(builder: GraphBuilder, x: Value) -> dict[str, Value]:
        whole = Layers(builder).sum(x, x)
        kept, last = builder.add_all(Split(1, (16, 48)), whole)
        return {"last": last, "whole": whole, "kept": kept}

    graph = graph_of(make, (1, 64, 16, 16))
    inputs = inputs_of(graph)
    plan = compiled(handle, graph, channels_last=False)
    assert {port.place.memory for port in plan.outputs} == {"output1"}  # or it is no test
    plan.save(tmp_path / "plan")
    for one in (plan, Plan.load(tmp_path / "plan", handle)):
        got = one.run(inputs)
        assert list(got) == ["last", "whole", "kept"]
        np.testing.assert_array_equal(got["whole"], 2 * inputs["x0"])
        np.testing.assert_array_equal(got["last"], 2 * inputs["x0"][:, 16:])
        np.testing.assert_array_equal(got["kept"], 2 * inputs["x0"][:, :16])


def test_weights_that_are_inputs_are_read_in_every_run(handle: Handle) -> None:
    from convfind_networks import evaluate
    from convfind_networks.ops import Convolution, Geometry

    def make(builder: GraphBuilder, x: Value, w: Value) -> Value:
        return builder.add(Convolution(Geometry.plain(2)), x, w)

    graph = graph_of(make, (2, 3, 7, 5), (4, 3, 3, 3))
    plan = compiled(handle, graph, channels_last=False)
    for seed in range(2):
        inputs = inputs_of(graph, seed)
        np.testing.assert_allclose(
            plan.run(inputs)["y"], evaluate(graph, inputs)["y"], rtol=0, atol=1e-4
        )


def test_everything_that_cannot_run_is_listed(handle: Handle) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(np.dtype(np.float32), (2, 3)))
    z = builder.input("z", TensorType(np.dtype(np.complex64), (2, 3)))
    first = builder.add(Reduce(ReduceFunction.LOG_SUM_EXP, (0,)), z, name="first")
    second = builder.add(Reduce(ReduceFunction.SUM, (0,)), z, name="second")
    graph = builder.graph({"a": first, "b": second, "x": x})
    with pytest.raises(UnsupportedError) as raised:
        compiled(handle, graph)
    assert [(one.operator, one.node) for one in raised.value.unsupported] == [
        *(("Reduce", "first"), ("Reduce", "second"))
    ]
    assert all(one.reason for one in raised.value.unsupported)


def test_a_network_without_elements_has_nothing_to_do(handle: Handle, tmp_path: Path) -> None:
    plan = compiled(handle, graph_of(lambda b, x: b.add(Identity(), x), (0, 3)))
    plan.save(tmp_path / "a.plan")
    for one in (plan, Plan.load(tmp_path / "a.plan", handle)):
        assert not one.schedule.tasks
        assert one.run({"x0": np.empty((0, 3), np.float32)})["y"].shape == (0, 3)


def test_a_saved_plan_gives_the_same_results(
    plan: Plan, graph: Graph, handle: Handle, tmp_path: Path
) -> None:
    plan.save(tmp_path / "a.plan")
    loaded = Plan.load(tmp_path / "a.plan", handle)
    assert loaded.schedule == plan.schedule
    inputs = inputs_of(graph)
    np.testing.assert_array_equal(loaded.run(inputs)["y"], plan.run(inputs)["y"])


def test_a_loaded_plan_is_saved_as_it_was(plan: Plan, handle: Handle, tmp_path: Path) -> None:
    first, second = tmp_path / "a.plan", tmp_path / "b.plan"
    plan.save(first)
    Plan.load(first, handle).save(second)
    assert second.read_bytes() == first.read_bytes()


def test_weights_are_written_and_read_in_pieces(
    plan: Plan, graph: Graph, handle: Handle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, pieces = tmp_path / "a.plan", tmp_path / "b.plan"
    plan.save(whole)
    size = plan.schedule.constants // 3 + 1
    monkeypatch.setattr(plan_file, "_PIECE", size)
    plan.save(pieces)
    assert pieces.read_bytes() == whole.read_bytes()
    inputs = inputs_of(graph)
    expected = plan.run(inputs)["y"]
    np.testing.assert_array_equal(Plan.load(whole, handle).run(inputs)["y"], expected)


def test_weights_are_used_where_they_were_read(plan: Plan, handle: Handle, tmp_path: Path) -> None:
    plan.save(tmp_path / "a.plan")
    loaded = Plan.load(tmp_path / "a.plan", handle)
    assert loaded.schedule.constants
    assert getattr(loaded.memory["constants"], "read_only", False)


def changed(path: Path, plan: Plan, change: Any) -> Path:
    """Save a plan whose document has been changed."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    plan.save(path)
    with safe_open(str(path), "numpy") as file:
        document = json.loads(file.metadata()["convfind_plan"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(document)
    text = json.dumps(document)
    checksum = new_checksum(text)
    checksum.update(tensors["constants"].data)
    metadata = {"convfind_plan": text, "convfind_checksum": checksum.hexdigest()}
    save_file(tensors, path, metadata)
    return path


def test_a_plan_with_any_changed_byte_is_refused_or_is_the_same(
    handle: Handle, plan: Plan, graph: Graph, tmp_path: Path
) -> None:
    path = tmp_path / "a.plan"
    plan.save(path)
    content, inputs = path.read_bytes(), inputs_of(graph)
    expected, numbers = plan.run(inputs)["y"], random.Random(0)
    refused = 0
    for at in [*(numbers.randrange(len(content)) for _ in range(60)), len(content) - 1]:
        damaged = bytearray(content)
        damaged[at] ^= 1 << numbers.randrange(8)
        path.write_bytes(damaged)
        try:
            loaded = Plan.load(path, handle)
        except PlanError:
            refused += 1
        else:
            np.testing.assert_array_equal(loaded.run(inputs)["y"], expected)
    assert refused > 50


def _at(document: Any, *keys: Any, value: Any) -> None:
    *way, last = keys
    for key in way:
        document = document[key]
    document[last] = value


@pytest.mark.parametrize(
    ("keys", "value", "told"),
    [
        (("device",), "other", "compile the network here"),
        (("format",), 99, "has format 99"),
        (("constants",), 7, "damaged"),
        (("tasks", 0, "solver_version"), 77, "compile the network again"),
        (("tasks", 0, "source_hash"), "00", "kernels .* have changed"),
        (("tasks", 0, "solution", "solver"), "nobody-fwd", "nobody-fwd"),
        (("tasks", 0, "problem"), {}, "compile the network again"),
        (("tasks", 0, "problem", "text"), "fwd-nothing", "compile the network again"),
        (("tasks", 0, "problem", "kind"), "nothing", "compile the network again"),
        (("tasks", 0, "places", "y"), ["arena", 2**40], "lies outside"),
        (("tasks", 0, "places", "y"), ["arena", -512], "lies outside"),
        (("tasks", 0, "places", "y"), ["arena", 4], "lies outside"),
        (("tasks", 0, "places", "y"), ["nowhere", 0], "lies outside"),
        (("tasks", 0, "places", "y"), ["input0", 0], "must not be"),
        (("tasks", 0, "places"), {}, "has no place"),
        (("arena",), 512, "lies outside"),
        (("tasks",), 5, "is no plan"),
        (("inputs", 0, "place"), ["arena", 0], "input x0 lies in arena"),
        (("inputs", 0, "place"), ["input0", 512], "input x0 lies in input0"),
        (("inputs", 0, "dtype"), "object", "compile the network again"),
        (("inputs", 0, "shape"), [2, -3], "compile the network again"),
        (("outputs", 0, "place"), ["arena", 2**40], "output y lies outside of arena"),
        (("outputs", 0, "place"), ["output0", 512], "output y lies outside of output0"),
        (("outputs", 0, "place"), ["nowhere", 0], "output y lies outside of nowhere"),
        (("outputs", 0, "place"), ["no\nwhere", 0], "output y lies outside of no where"),
        (("outputs", 0, "place"), ["9" * 10**5, 0], "characters"),
        (("outputs", 0, "shape"), [2**20, 2**18], "y takes 1099511627776 bytes"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(
    plan: Plan, handle: Handle, tmp_path: Path, keys: tuple[Any, ...], value: Any, told: str
) -> None:
    path = changed(tmp_path / "a.plan", plan, lambda document: _at(document, *keys, value=value))
    with pytest.raises(PlanError, match=told) as raised:
        Plan.load(path, handle)
    assert "\n" not in str(raised.value)


def test_an_output_brings_no_memory_for_a_larger_one(
    plan: Plan, handle: Handle, tmp_path: Path
) -> None:
    """It would be as small as the output that comes first, and kernels count on the other size."""

    def steal(document: Any) -> None:
        (whole,) = document["outputs"]
        first = {"name": "a", "dtype": "float32", "shape": [1], "place": ["output1", 0]}
        document["outputs"] = [first, {**whole, "place": ["arena", 0]}]
        document["tasks"][-1]["places"]["y"] = ["output1", 0]

    with pytest.raises(PlanError, match="output a lies in output1, which is another's"):
        Plan.load(changed(tmp_path / "a.plan", plan, steal), handle)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8", "bool"])
def test_a_saved_plan_keeps_every_type_of_elements(
    handle: Handle, tmp_path: Path, dtype: str
) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(np.dtype(dtype), (2, 3)))
    plan = compiled(handle, builder.graph({"y": builder.add(Transpose((1, 0)), x)}))
    plan.save(tmp_path / "a.plan")
    given = np.arange(6).reshape(2, 3).astype(dtype)
    got = Plan.load(tmp_path / "a.plan", handle).run({"x": given})["y"]
    np.testing.assert_array_equal(got, given.T, strict=True)


@pytest.mark.parametrize("contents", [b"", b"nothing", bytes(100)])
def test_a_file_that_is_no_plan_is_refused(handle: Handle, tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "a.plan"
    with pytest.raises(PlanError, match="cannot read"):
        Plan.load(path, handle)
    path.write_bytes(contents)
    with pytest.raises(PlanError, match="is no plan"):
        Plan.load(path, handle)


def test_a_profile_has_every_task_and_the_whole(plan: Plan) -> None:
    profile = plan.profile(rounds=2)
    assert [one.task for one in profile.tasks] == list(plan.schedule.tasks)
    assert profile.whole_ms > 0
    assert all(one.time_ms > 0 and one.gflops > 0 for one in profile.tasks)
    assert sum(map(profile.share, profile.tasks)) == pytest.approx(1)
    document = json.loads(json.dumps(profile.to_dict()))
    assert len(document["tasks"]) == len(profile.tasks)
    events = profile.trace()["traceEvents"]
    assert [one["name"] for one in events] == [task.node for task in plan.schedule.tasks]
    ends = [one["ts"] + one["dur"] for one in events]
    assert [one["ts"] for one in events[1:]] == pytest.approx(ends[:-1])


def test_an_explanation_has_a_reason_for_every_task(plan: Plan) -> None:
    document = json.loads(json.dumps(plan.explain().to_dict()))
    assert len(document["tasks"]) == len(plan.schedule.tasks)
    assert all(one["why"] for one in document["tasks"])


def test_places_are_values(plan: Plan) -> None:
    task = plan.schedule.tasks[0]
    assert replace(task) == task
    assert Place("arena") == Place("arena", 0)
