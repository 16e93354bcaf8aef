"""Running solutions: what goes in and out, bound weights, workspace, memory on the device."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.checking.reference import reference_convolution
from convfind.errors import (
    DeviceError,
    ProblemError,
    SettingsError,
    SolutionError,
    WorkspaceError,
)
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.runtime.tensors import DeviceTensor, to_host_array
from convfind.testing.mock_functions import mock_convolution
from convfind.types import DataType

Array = np.ndarray[Any, Any]
PROBLEM = ConvProblem.forward(x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1)


@pytest.fixture
def handle(mock_handle: Handle) -> Handle:
    return mock_handle


def _tensors(problem: ConvProblem) -> dict[str, Array]:
    generator = np.random.default_rng(7)
    return {
        name: generator.standard_normal(
            problem.tensor_layout(name).to_memory(problem.shape(name))
        ).astype(np.float32)
        for name in problem.direction.reads
    }


def _close(result: Any, problem: ConvProblem, tensors: dict[str, Array], **kwargs: Any) -> None:
    expected = reference_convolution(problem, *tensors.values(), **kwargs)
    assert np.allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize("value", [PROBLEM.key, (2, 4, 6, 5), None, np.zeros(3), ConvProblem])
def test_what_is_no_problem_is_refused_with_the_way_to_one(handle: Handle, value: Any) -> None:
    for ask in (handle.find, handle.explain, handle.miopen.solutions, handle.miopen.workspace_size):
        with pytest.raises(ProblemError, match=r"problem: .* ConvProblem.from_key"):
            ask(value)


def test_what_is_no_solution_is_refused_with_the_way_to_one(handle: Handle) -> None:
    for value in (None, PROBLEM.key, handle.find(PROBLEM)):
        with pytest.raises(SolutionError, match=r"is no solution; pass `find\(problem\).best`"):
            handle.prepare(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["solvers", "deny"])
def test_solvers_that_are_not_installed_are_refused_with_similar_ones(
    handle: Handle, field: str
) -> None:
    with pytest.raises(SettingsError, match=f"{field}: 'mock-dynamo' .* mean mock-dynamic"):
        handle.policy(**{field: ["mock-dynamo"]})  # type: ignore[arg-type]


@pytest.mark.parametrize("direction", ["forward", "backward-data", "backward-weights"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_arrays_in_and_out(handle: Handle, direction: str, layout: str) -> None:
    problem = ConvProblem.create(
        direction, (2, 4, 6, 5), (8, 4, 3, 3), padding=1, stride=2, layout=layout
    )
    tensors = _tensors(problem)
    result = handle.run(handle.find(problem).best, **tensors)
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    _close(result, problem, tensors)


def test_an_output_array_is_written_in_place(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    out = np.full(PROBLEM.y_shape, np.nan, np.float32)
    assert handle.run(handle.find(PROBLEM).best, **tensors, out=out) is out
    _close(out, PROBLEM, tensors)


def test_an_output_that_is_not_contiguous_is_written_too(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    wide = np.full((*PROBLEM.y_shape[:-1], 2 * PROBLEM.y_shape[-1]), np.nan, np.float32)
    out = wide[..., ::2]
    handle.run(handle.find(PROBLEM).best, **tensors, out=out)
    _close(out, PROBLEM, tensors)
    assert np.isnan(wide[..., 1::2]).all()


def test_beta_reads_the_output(handle: Handle) -> None:
    problem = ConvProblem.forward(x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1, beta=2.0)
    tensors = _tensors(problem)
    best = handle.find(problem).best
    out = np.ones(problem.y_shape, np.float32)
    handle.run(best, **tensors, out=out)
    _close(out, problem, tensors, out=np.ones(problem.y_shape))
    with pytest.raises(ProblemError, match=r"out.*beta"):
        handle.run(best, **tensors)


def test_tensors_with_gaps(handle: Handle) -> None:
    wide = np.random.default_rng(1).standard_normal((2, 4, 6, 10)).astype(np.float32)
    strides = tuple(step // 4 for step in wide[..., ::2].strides)
    problem = ConvProblem.forward(x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1, x_strides=strides)
    tensors = {"x": wide[..., ::2], "w": _tensors(PROBLEM)["w"]}
    _close(handle.run(handle.find(problem).best, **tensors), problem, tensors)


def test_tensors_of_a_framework_through_dlpack(handle: Handle) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensors = _tensors(PROBLEM)
    given = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    out = torch.empty(PROBLEM.y_shape)
    assert handle.run(handle.find(PROBLEM).best, **given, out=out) is out
    _close(out.numpy(), PROBLEM, tensors)


def test_memory_on_the_device_stays_there(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    given = {name: handle.tensor(tensor) for name, tensor in tensors.items()}
    best = handle.find(PROBLEM).best
    result = handle.run(best, **given)
    assert isinstance(result, DeviceTensor)
    _close(handle.to_numpy(result), PROBLEM, tensors)
    handle.run(best, **given, out=result)
    _close(handle.to_numpy(result), PROBLEM, tensors)


def test_a_result_with_gaps_keeps_them_on_the_device(handle: Handle) -> None:
    problem = ConvProblem.forward(
        x=(2, 4, 6, 5), w=(8, 4, 3, 3), padding=1, y_strides=(480, 60, 10, 2)
    )
    tensors = _tensors(problem)
    given = {name: handle.tensor(tensor) for name, tensor in tensors.items()}
    result = handle.run(handle.find(problem).best, **given)
    _close(handle.to_numpy(result), problem, tensors)
    with pytest.raises(ProblemError, match="strides"):
        handle.run(handle.find(PROBLEM).best, **given, out=result)


def test_memory_that_a_backend_does_not_share_says_what_to_do(handle: Handle) -> None:
    tensor = handle.tensor(np.zeros(3, np.float32))
    with pytest.raises(BufferError, match=r"MockBuffer.*to_numpy"):
        np.from_dlpack(tensor)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="to_numpy"):
        handle.tensor(tensor)


def test_bound_weights_are_packed_once_and_kept(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    found = handle.find(PROBLEM, solvers=["mock-packing"], constant_weights=True)
    weights = tensors["w"].copy()
    bound = handle.bind(found.best, w=weights)
    weights[...] = 0
    for _ in range(2):
        _close(bound.run(x=tensors["x"]), PROBLEM, tensors)
    plain = handle.bind(handle.find(PROBLEM, solvers=["mock-dynamic"]).best, w=tensors["w"])
    _close(plain.run(x=tensors["x"]), PROBLEM, tensors)
    with pytest.raises(ProblemError, match="bound"):
        bound.run(**tensors)


def test_an_unbound_run_packs_every_time(handle: Handle) -> None:
    best = handle.find(PROBLEM, solvers=["mock-packing"]).best
    tensors = _tensors(PROBLEM)
    _close(handle.run(best, **tensors), PROBLEM, tensors)
    tensors["w"] = -tensors["w"]
    _close(handle.run(best, **tensors), PROBLEM, tensors)


def test_weights_cannot_be_bound_where_they_are_the_result(handle: Handle) -> None:
    best = handle.find(PROBLEM.with_direction("backward-weights")).best
    with pytest.raises(ProblemError, match="writes w"):
        handle.bind(best, w=_tensors(PROBLEM)["w"])


W = np.zeros((8, 4, 3, 3), np.float32)
X = np.zeros((2, 4, 6, 5), np.float32)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"x": X}, "w: None"),
        ({"w": W}, "x: None"),
        ({"x": X, "w": W, "y": X}, "y.*use out="),
        ({"x": X[:1], "w": W}, r"x: \(1, 4, 6, 5\).*\(2, 4, 6, 5\)"),
        ({"x": X, "w": W[0]}, "w: "),
        ({"x": X.astype(np.float64), "w": W}, "float64.*float32"),
        ({"x": X, "w": "weights"}, "w"),
        ({"x": X, "w": object()}, "DLPack"),
        ({"x": X, "w": W, "out": [1.0]}, "out.*writable"),
        ({"x": X, "w": W, "out": np.zeros((2, 8, 6, 4), np.float32)}, "y: .*2, 8, 6, 5"),
    ],
)
def test_wrong_tensors_are_refused_naming_the_field(
    handle: Handle, tensors: dict[str, Any], words: str
) -> None:
    with pytest.raises(ProblemError, match=words):
        handle.run(handle.find(PROBLEM).best, **tensors)


def test_a_read_only_output_is_refused(handle: Handle) -> None:
    out = np.zeros(PROBLEM.y_shape, np.float32)
    out.flags.writeable = False
    with pytest.raises(ProblemError, match="read-only"):
        handle.run(handle.find(PROBLEM).best, x=X, w=W, out=out)


def test_tensors_of_pytorch_that_have_no_memory_to_share_are_refused(handle: Handle) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    best = handle.find(PROBLEM).best
    with pytest.raises(ProblemError, match=r"x: 'Tensor'.*memory to share"):
        handle.run(best, x=torch.empty(PROBLEM.x_shape, device="meta"), w=W)
    with pytest.raises(ProblemError, match=r"w: .*requires a gradient.*detach\(\)"):
        handle.run(best, x=X, w=torch.ones(PROBLEM.w_shape, requires_grad=True))
    with pytest.raises(ProblemError, match="x: 'Tensor'"):
        handle.run(best, x=torch.from_numpy(X).to_sparse(), w=W)


def test_bfloat16_of_pytorch_is_used_in_place(handle: Handle) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    bits = torch.arange(6, dtype=torch.bfloat16)
    array = to_host_array(bits)
    assert array.dtype == DataType.BFLOAT16.numpy
    array[0] = 7
    assert bits[0] == 7
    problem = ConvProblem.forward((1, 2, 3, 3), (4, 2, 1, 1), dtype="bfloat16")
    x, w = torch.ones(problem.x_shape).bfloat16(), torch.ones(problem.w_shape).bfloat16()
    out = torch.zeros(problem.y_shape, dtype=torch.bfloat16)
    handle.run(handle.find(problem).best, x=x, w=w, out=out)
    assert (out == 2).all()


def test_a_type_that_no_problem_has_is_refused(handle: Handle) -> None:
    with pytest.raises(ProblemError, match=r"tensor: 'complex64'.*float32"):
        handle.tensor(np.zeros(3, np.complex64))


def memory(size: int, skipped: int) -> Array:
    """Floats that begin so many bytes behind a multiple of 64."""
    raw = np.zeros(size * 4 + 128, np.uint8)
    start = -raw.ctypes.data % 64 + skipped
    return raw[start : start + 4 * size].view(np.float32)


def test_bytes_in_a_foreign_order_are_refused(handle: Handle) -> None:
    """NumPy gives the types of both orders one name."""
    foreign = X.astype(X.dtype.newbyteorder())
    solution = handle.find(PROBLEM).best
    refused = pytest.raises(ProblemError, match="float32 of foreign byte order")
    for ask in (
        lambda: handle.tensor(foreign),
        lambda: handle.run(solution, x=foreign, w=W),
        lambda: handle.run(solution, x=X, w=W, out=np.zeros(PROBLEM.y_shape, ">f4")),
        lambda: handle.convolve(foreign, W),
        lambda: handle.bind(solution, w=W.astype(foreign.dtype)),
    ):
        with refused:
            ask()


@pytest.mark.parametrize("skipped", [0, 16])
def test_a_result_over_an_input_is_refused(handle: Handle, skipped: int) -> None:
    problem = ConvProblem.forward(x=(1, 4, 6, 5), w=(4, 4, 3, 3), padding=1)
    best = handle.find(problem).best
    both = memory(130, skipped)
    x, out = (both[at : at + 120].reshape(problem.x_shape) for at in (0, 10))
    w = np.zeros(problem.w_shape, np.float32)
    for over in (x, out):
        with pytest.raises(ProblemError, match=r"out: 'memory of x'.*no input shares"):
            handle.run(best, x=x, w=w, out=over)
    tensor = handle.tensor(x)
    for given in (w, handle.tensor(w)):
        with pytest.raises(ProblemError, match="out: 'memory of an input'"):
            handle.run(best, x=tensor, w=given, out=tensor)


def test_a_result_over_bound_weights_is_refused(handle: Handle) -> None:
    problem = ConvProblem.forward(x=(1, 4, 1, 1), w=(4, 4, 1, 1))
    w = handle.tensor(np.zeros((4, 4, 1, 1), np.float32))
    bound = handle.bind(handle.find(problem, solvers=["mock-dynamic"]).best, w=w)
    over = DeviceTensor(w.buffer, (1, 4, 1, 1), w.dtype)
    with pytest.raises(ProblemError, match="out: 'memory of an input'"):
        bound.run(x=np.zeros((1, 4, 1, 1), np.float32), out=over)


@pytest.mark.parametrize(
    "strides",
    [(0, 0, 0, 0), (96, 96, 20, 4), (480, 120, 0, 4), (480, -120, 12, 4), (240, 60, 10, 2)],
)
def test_a_result_whose_elements_share_memory_is_refused(
    handle: Handle, strides: tuple[int, ...]
) -> None:
    problem = ConvProblem.forward(x=(2, 4, 6, 5), w=(4, 4, 3, 3), padding=1)
    best, x = handle.find(problem).best, np.zeros(problem.x_shape, np.float32)
    w = np.zeros(problem.w_shape, np.float32)
    memory = np.arange(2000, dtype=np.float32)
    before = memory.copy()
    out = np.lib.stride_tricks.as_strided(memory[1000:], problem.y_shape, strides)
    for given in (x, handle.tensor(x)):
        with pytest.raises(ProblemError, match="an array whose elements do not share memory"):
            handle.run(best, x=given, w=w, out=out)
    assert np.array_equal(memory, before)


@pytest.mark.parametrize("part", [np.s_[:2, :4, 3:9, :5], np.s_[::-2, ::2, ::-2, ::2]])
def test_a_result_that_is_part_of_an_array_is_written_there(handle: Handle, part: Any) -> None:
    problem = ConvProblem.forward(x=(2, 4, 6, 5), w=(4, 4, 3, 3), padding=1)
    tensors, out = _tensors(problem), np.zeros((4, 8, 12, 10), np.float32)[part]
    assert handle.run(handle.find(problem).best, **tensors, out=out) is out
    _close(out, problem, tensors)


def test_a_result_between_the_elements_of_an_input_is_right(handle: Handle) -> None:
    both = np.random.default_rng(3).standard_normal((2, 4, 6, 10), np.float32)
    x, out = both[..., ::2], both[..., 1::2]
    steps = tuple(step // 4 for step in x.strides)
    problem = ConvProblem.forward(
        x=(2, 4, 6, 5), w=(4, 4, 3, 3), padding=1, x_strides=steps, y_strides=steps
    )
    w = np.ones(problem.w_shape, np.float32)
    expected = reference_convolution(problem, x.copy(), w)
    handle.run(handle.find(problem).best, x=x, w=w, out=out)
    assert np.allclose(out, expected, atol=1e-4)


def test_inputs_may_be_one_another(handle: Handle) -> None:
    problem = ConvProblem.backward_weights(x=(2, 4, 6, 5), w=(4, 4, 1, 1))
    both = np.random.default_rng(3).standard_normal(problem.x_shape, np.float32)
    best = handle.find(problem).best
    _close(handle.run(best, x=both, y=both), problem, {"x": both, "y": both})
    tensor = handle.tensor(both)
    result = handle.to_numpy(handle.run(best, x=tensor, y=tensor))
    _close(result, problem, {"x": both, "y": both})


def test_a_workspace_in_the_memory_of_a_tensor_is_refused(handle: Handle) -> None:
    found = handle.find(PROBLEM, solvers=["mock-packing"])
    large = np.zeros(found.best.workspace, np.uint8).view(np.int8)
    workspace = handle.tensor(large)
    x = DeviceTensor(workspace.buffer, PROBLEM.x_shape, DataType.FLOAT32)
    y = DeviceTensor(workspace.buffer, PROBLEM.y_shape, DataType.FLOAT32)
    needed = max(PROBLEM.nbytes("x"), PROBLEM.nbytes("y"))
    if workspace.buffer.size < needed:
        workspace = handle.tensor(np.zeros(needed, np.int8))
        x, y = replace(x, buffer=workspace.buffer), replace(y, buffer=workspace.buffer)
    with pytest.raises(WorkspaceError, match="shares memory with an input"):
        handle.run(found.best, x=x, w=W, workspace=workspace)
    with pytest.raises(WorkspaceError, match="shares memory with the result"):
        handle.run(found.best, x=X, w=W, out=y, workspace=workspace)


def test_arrays_may_change_after_a_run_whose_result_stays_on_the_device(handle: Handle) -> None:
    tensors = _tensors(PROBLEM)
    given = {name: tensor.copy() for name, tensor in tensors.items()}
    out = handle.tensor(np.zeros(PROBLEM.y_shape, np.float32))
    handle.run(handle.find(PROBLEM).best, **given, out=out)
    for array in given.values():
        array[...] = np.nan
    _close(handle.to_numpy(out), PROBLEM, tensors)


def test_a_tensor_on_another_device_is_refused(handle: Handle) -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(DeviceError, match="DLPack device 2:0"):
        handle.run(handle.find(PROBLEM).best, x=Elsewhere(), w=W)


def test_a_solution_of_a_solver_that_is_gone_says_so(handle: Handle) -> None:
    best = replace(handle.find(PROBLEM).best, solver="mock-gone")
    with pytest.raises(SolutionError, match="mock-gone"):
        handle.run(best, x=X, w=W)


def test_threads_take_turns(handle: Handle) -> None:
    under_way: list[int] = []
    most: set[int] = set()

    def slowly(x: Any, w: Any, y: Any, *words: Any) -> None:
        under_way.append(1)
        most.add(len(under_way))
        time.sleep(0.002)
        mock_convolution(x, w, y, *words)
        under_way.pop()

    handle.session.device.functions["mock_convolution"] = slowly  # type: ignore[attr-defined]
    convolution = handle.prepare(handle.find(PROBLEM, "FAST", solvers=["mock-dynamic"]).best)
    tensors = [
        {name: (times * array).astype(np.float32) for name, array in _tensors(PROBLEM).items()}
        for times in range(1, 5)
    ]

    def run(given: dict[str, Array]) -> Any:
        on_device = {name: handle.tensor(array) for name, array in given.items()}
        return handle.to_numpy(convolution.run(**on_device)), convolution.run(**given)

    with ThreadPoolExecutor(4) as pool:
        for results, given in zip(pool.map(run, tensors), tensors, strict=True):
            for result in results:
                _close(result, PROBLEM, given)
    assert most == {1}


@pytest.mark.slow
def test_ten_thousand_shapes_leave_a_bounded_number_prepared(handle: Handle) -> None:
    solution = handle.find(PROBLEM).best
    first = handle.prepare(solution)
    for batch in range(1, 10_001):
        problem = PROBLEM.with_batch(batch)
        handle.prepare(replace(solution, problem=problem.key))
        if batch % 100 == 0:
            assert handle.prepare(solution) is first, "used all the time, and never forgotten"
    assert len(handle._convolutions) <= 1024
