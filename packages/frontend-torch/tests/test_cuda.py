"""Tensors of an NVIDIA GPU: streams, graphs, flags, types, plans. Needs such a GPU."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from quick_finds import QUICK, assert_close
from torch import nn

import convfind_torch
from convfind.problem import ConvProblem
from convfind_torch import functional
from convfind_torch.engine import engine

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.version.hip is not None, reason="no NVIDIA GPU here"
)

cuda: Any = torch.cuda


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 2, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ).cuda()


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 8, 1),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ).cuda()


def image(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, 16, 16, device="cuda")


def ours(model: nn.Module) -> set[str]:
    return {line.where for line in convfind_torch.report(model).lines}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_results_and_gradients_are_right(dtype: torch.dtype, layout: torch.memory_format) -> None:
    for transposed in (False, True):
        w = torch.randn(4, 3, 3, 3, device="cuda", dtype=dtype, requires_grad=True)
        x = torch.randn(2, 4 if transposed else 3, 9, 9, device="cuda", dtype=dtype)
        x = x.contiguous(memory_format=layout).requires_grad_()
        name = "conv_transpose2d" if transposed else "conv2d"
        with convfind_torch.using(**QUICK):
            y = getattr(functional, name)(x, w, stride=2, padding=1)
            y.square().sum().backward()
        exact_x, exact_w = (one.detach().double().requires_grad_() for one in (x, w))
        right = getattr(nn.functional, name)(exact_x, exact_w, stride=2, padding=1)
        right.square().sum().backward()
        assert y.is_contiguous(memory_format=layout)
        assert_close(y, right, dtype)
        scale = float(right.abs().max())
        for got, exact in ((x.grad, exact_x.grad), (w.grad, exact_w.grad)):
            assert got is not None
            assert exact is not None
            assert_close(got / scale, exact / scale, dtype)


def test_a_converted_model_trains() -> None:
    model, x = network(), image()
    other = convfind_torch.convert(copy.deepcopy(model), **QUICK)
    for one in (model, other):
        one(x).square().sum().backward()
    assert ours(other) == set(QUICK["solvers"])
    for got, right in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(got.grad, right.grad, atol=1e-2, rtol=1e-2)


def test_measured_finds_and_the_comparison_with_pytorch_work() -> None:
    model, x = network().eval(), image(8)
    with torch.no_grad():
        right = model(x)
        convfind_torch.convert(model)
        for _ in range(2):
            torch.testing.assert_close(model(x), right, atol=1e-2, rtol=1e-2)
    assert all(line.gain is not None for line in convfind_torch.report(model).lines)


def test_work_goes_to_the_stream_of_the_moment() -> None:
    w, x = torch.randn(4, 3, 3, 3, device="cuda"), image()
    with convfind_torch.using(**QUICK), torch.no_grad():
        functional.conv2d(x + 1, w)  # PyTorch loads a kernel when it is first asked for, and waits
        place = engine().place(x)
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            cuda._sleep(1_000_000_000)
            late = x + 1
            y = functional.conv2d(late, w)
            assert not stream.query(), "somebody waited"
            assert engine().place(late) is place
        stream.synchronize()
    torch.testing.assert_close(y, torch.conv2d(x + 1, w), atol=1e-2, rtol=1e-2)


def test_calls_become_part_of_a_graph_of_the_callers() -> None:
    for constant in (False, True):
        model, x = network().eval(), image()
        convfind_torch.convert(model, constant_weights=constant, **QUICK)
        with torch.no_grad():
            for _ in range(3):
                model(x)
            graph = cuda.CUDAGraph()
            with cuda.graph(graph):
                y = model(x)
            x.copy_(image())
            model[0].weight.mul_(-1.5)
            graph.replay()
            right = convfind_torch.revert(copy.deepcopy(model))(x)
        assert convfind_torch.report(model).lines
        torch.testing.assert_close(y, right, atol=1e-2, rtol=1e-2)


def test_what_is_first_met_in_a_capture_is_pytorchs_and_found_later() -> None:
    x, w = torch.randn(1, 5, 13, 13, device="cuda"), torch.randn(7, 5, 3, 3, device="cuda")
    with convfind_torch.using(**QUICK), torch.no_grad():
        torch.conv2d(x, w)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            y = functional.conv2d(x, w)
        graph.replay()
        torch.testing.assert_close(y, torch.conv2d(x, w), atol=1e-2, rtol=1e-2)
        functional.conv2d(x, w)
    lines = [one for one in convfind_torch.report().lines if "1x5x13x13" in one.problem]
    assert {line.where for line in lines} >= {"direct-naive-fwd"}


def test_flags_are_part_of_the_problem() -> None:
    x, w = torch.randn(1, 6, 11, 11, device="cuda"), torch.randn(7, 6, 3, 3, device="cuda")
    cudnn: Any = torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.deterministic
    try:
        with convfind_torch.using(**QUICK), torch.no_grad():
            for cudnn.allow_tf32, cudnn.deterministic in ((True, False), (False, True)):
                functional.conv2d(x, w)
    finally:
        cudnn.allow_tf32, cudnn.deterministic = before
    keys = [line.problem for line in convfind_torch.report().lines if "1x6x11x11" in line.problem]
    problems = [ConvProblem.from_key(key) for key in keys]
    assert {(one.allow_tf32, one.deterministic) for one in problems} == {
        *((True, False), (False, True)),
    }


def test_autocast_computes_in_its_type_and_keeps_the_weights_it_cast() -> None:
    model, x = network().eval(), image()
    other = convfind_torch.convert(copy.deepcopy(model), constant_weights=True, **QUICK)
    with torch.no_grad(), torch.autocast("cuda", torch.float16):
        right = model(x)
        for _ in range(3):
            got = other(x)
    assert got.dtype is torch.float16
    torch.testing.assert_close(got, right, atol=2e-2, rtol=2e-2)
    weights: Any = other[0].weight
    cast = engine().bound.cast(weights, torch.float16)
    assert engine().bound.cast(weights, torch.float16) is cast
    with torch.no_grad():
        weights.mul_(2)
    assert engine().bound.cast(weights, torch.float16) is not cast


def test_tensors_at_odd_addresses_and_with_gaps_are_taken() -> None:
    w = torch.randn(4, 3, 3, 3, device="cuda")
    odd = torch.randn(2 * 3 * 81 + 1, device="cuda")[1:].view(2, 3, 9, 9)
    gaps = torch.randn(2, 6, 9, 18, device="cuda")[:, ::2, :, ::2]
    with convfind_torch.using(**QUICK), torch.no_grad():
        for x in (odd, gaps):
            torch.testing.assert_close(
                functional.conv2d(x, w), torch.conv2d(x, w), atol=1e-2, rtol=1e-2
            )


def test_a_patched_process_computes_here() -> None:
    model, x = network(), image()
    right = model(x)
    with convfind_torch.patched(**QUICK):
        got = model(x)
        got.sum().backward()
    torch.testing.assert_close(got, right, atol=1e-2, rtol=1e-2)
    assert all(one.grad is not None for one in model.parameters())


def test_a_graph_of_dynamos_becomes_a_plan_and_then_one_launch() -> None:
    model, x = convolutional().eval(), image()
    torch._dynamo.reset()
    options = {**QUICK, "solvers": None}
    compiled = torch.compile(copy.deepcopy(model), backend="convfind", options=options)
    with torch.no_grad():
        right = model(x)
        for _ in range(4):
            got = compiled(x)
            torch.testing.assert_close(got, right, atol=1e-2, rtol=1e-2)
        lines = [one for one in convfind_torch.report().lines if one.where == "plan"]
        assert lines, convfind_torch.report()
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            elsewhere = compiled(x)
        stream.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            captured = compiled(x)
        x.copy_(image())
        graph.replay()
        torch.testing.assert_close(elsewhere, right, atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(captured, model(x), atol=1e-2, rtol=1e-2)


def test_a_plan_of_networks_is_replayed_as_a_graph() -> None:
    networks = pytest.importorskip("convfind_networks")
    model, x = convolutional().eval(), image()
    program = torch.export.export(model, (x,))
    network_ = networks.Network.from_torch(program, name="small")
    place: Any = engine().place(x)
    plan = network_.compile(place.handle, mode="FAST")
    (name,), (result,) = (port.name for port in plan.inputs), (port.name for port in plan.outputs)
    y = torch.empty(2, 4, device="cuda")
    with torch.no_grad():
        right = model(x)
        for run in range(4):
            plan.enqueue({name: x}, {result: y.zero_()})
            torch.testing.assert_close(y, right, atol=1e-2, rtol=1e-2)
            assert len(plan.invoker._graphs) == (run > 0), plan.invoker.obstacle
        got = torch.from_numpy(plan.run({name: x})[result])
    torch.testing.assert_close(got, right.cpu(), atol=1e-2, rtol=1e-2)


def test_training_graphs_have_convfinds_convolutions() -> None:
    model, x = network(), image()
    torch._dynamo.reset()
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend="convfind", options={**QUICK, "rest": "eager"})
    for one in (model, compiled):
        one(x).square().sum().backward()
    for got, right in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(got.grad, right.grad, atol=1e-2, rtol=1e-2)


def test_threads_may_share_a_model() -> None:
    model, images = network().eval(), [image() for _ in range(4)]
    with torch.no_grad():
        right = [model(one) for one in images]
        convfind_torch.convert(model, **QUICK)
        wrong: list[BaseException] = []

        def work(at: int) -> None:
            try:
                with torch.no_grad(), cuda.stream(cuda.Stream()):
                    for _ in range(20):
                        y = model(images[at])
                        cuda.current_stream().synchronize()
                        torch.testing.assert_close(y, right[at], atol=1e-2, rtol=1e-2)
            except BaseException as error:
                wrong.append(error)

        cuda.synchronize()
        threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[0]


def test_memory_goes_with_the_model() -> None:
    x = image(64)
    with torch.no_grad():
        convfind_torch.convert(network().eval(), **QUICK)(x)
        cuda.synchronize()
        before = cuda.memory_allocated()
        for _ in range(5):
            convfind_torch.convert(network().eval(), constant_weights=True, **QUICK)(x)
        cuda.synchronize()
    assert cuda.memory_allocated() <= before


@pytest.mark.skipif(cuda.device_count() < 2, reason="one GPU here")
def test_every_device_has_its_own_place() -> None:
    if cuda.device_count() < 2:
        return
    x, w = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3)
    right = torch.conv2d(x, w)
    with convfind_torch.using(**QUICK), torch.no_grad():
        for at in (0, 1, 0):
            got = functional.conv2d(x.to(at), w.to(at))
            assert got.device.index == at
            torch.testing.assert_close(got.cpu(), right, atol=1e-2, rtol=1e-2)


def test_a_training_graph_replays_as_cuda_graphs() -> None:
    torch.compiler.reset()
    model, x = convolutional().train(), image(8)
    options = {**QUICK, "cuda_graphs": True}
    ours = torch.compile(copy.deepcopy(model), backend="convfind", options=options)
    for _ in range(4):  # warm-up, capture, replays
        for one in (model, ours):
            one.zero_grad()
            torch.compiler.cudagraph_mark_step_begin()
            one(x).square().sum().backward()
    for got, right in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(got.grad, right.grad, atol=1e-2, rtol=1e-2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        torch.compiler.cudagraph_mark_step_begin()
        ours(x).square().sum().backward()
    assert not [event for event in seen.key_averages() if "convfind" in event.key]


def test_replayed_work_is_timed_without_the_hosts_share() -> None:
    import time

    place = engine().place(image())
    assert not isinstance(place, str)
    numbers = torch.randn(1 << 20, device="cuda")

    def work() -> None:
        for _ in range(10):
            time.sleep(1e-3)
            numbers.mul_(1)

    place.milliseconds(work)
    assert place.milliseconds(work) > 9
    assert place.milliseconds(work, replayed=True) < 5
