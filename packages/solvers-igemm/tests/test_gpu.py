"""The implicit GEMM solvers for GPUs, run on whatever device there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import devices_for_tests
import pytest
from drawn_shapes import assert_drawn
from hypothesis import strategies as st

from convfind.checking.random_data import integer_data
from convfind.checking.reference import reference_convolution
from convfind.device.target import DeviceKind
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.runtime.tensors import tensor_view
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.testing import assert_solver, edge_cases
from convfind.testing.guarded_run import POISON, GuardedRunner
from convfind.testing.tensors import filled_memory
from convfind.types import DataType, Direction, Layout
from convfind_solvers_igemm.gpu.base import GpuSolver
from convfind_solvers_igemm.gpu.dot import DotSolver
from convfind_solvers_igemm.gpu.tiles import RATES, Tile
from convfind_solvers_igemm.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

DOT = [solver for solver in solvers() if isinstance(solver, DotSolver)]
SOLVERS = [s for s in solvers() if isinstance(s, GpuSolver) and not isinstance(s, DotSolver)]
DYNAMIC = [solver for solver in SOLVERS if solver.is_dynamic]
FIXED = [solver for solver in SOLVERS if not solver.is_dynamic]
H200 = replace(devices_for_tests.H200, identity="", features=frozenset({"nv-ptx", "dot4"}))


def each(found: Sequence[GpuSolver]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("solver", found, ids=lambda s: s.solver_id)


@pytest.fixture(scope="session")
def as_gpu(convfind_device: Device) -> Device:
    """The device as if it were a GPU with few units, whatever it is."""
    features = convfind_device.target.features | {"dot4"}
    return devices_for_tests.as_gpu(
        convfind_device, compute_units=8, local_memory=96 * 1024, features=features
    )


def problem_of(
    solver: GpuSolver, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=solver.channels_last)
    return ConvProblem.create(solver.direction, x, w, layout=layout, **options)  # type: ignore[arg-type]


@each(DYNAMIC)
def test_the_conformance_kit_finds_nothing(solver: GpuSolver, as_gpu: Device) -> None:
    report = assert_solver(solver, as_gpu, shapes=edge_cases()[::8])
    assert len(report.problems) > 10


@each(FIXED)
def test_nor_with_sizes_compiled_in(solver: GpuSolver, as_gpu: Device) -> None:
    shapes = [
        replace(
            problem_of(solver, case.x_shape, case.w_shape),
            stride=case.stride,
            padding=case.padding,
            padding_end=case.padding_end,
            dilation=case.dilation,
            groups=case.groups,
        )
        for case in edge_cases()[2::9]
        if case.is_packed and case.mode == "conv" and case.groups == 1
    ]
    if solver.channels_last:  # windows side by side are channels
        shapes += [problem_of(solver, (2, 3, 8, 12), (20, 3, 4, 4), stride=4)]
        if solver.direction is not Direction.BACKWARD_WEIGHTS:
            shapes += [problem_of(solver, (2, 3, 8, 12), (20, 3, 4, 4), stride=4, bias=True)]
    assert_solver(solver, as_gpu, shapes=shapes, every_variant=False)


@st.composite
def problems(draw: st.DrawFn, solver: GpuSolver) -> ConvProblem:
    """Draw a problem of the solver's direction, layout and type; what is impossible never comes."""
    is_int8 = isinstance(solver, DotSolver)
    dtype = DataType.INT8 if is_int8 else DataType.FLOAT32
    written = (DataType.INT32, DataType.FLOAT32) if is_int8 else (DataType.FLOAT32,)
    rank = draw(st.integers(1, 3))
    small = st.integers(1, 24 if rank < 3 else 7)
    window = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank).map(tuple))
    channels = draw(st.sampled_from((1, 3, 4, 16, 20, 32)))
    groups = draw(st.sampled_from((1, 1, 2)))
    axes = draw(st.lists(small, min_size=rank, max_size=rank).map(tuple))
    try:
        return problem_of(
            solver,
            (draw(st.integers(1, 3)), groups * channels, *axes),
            (groups * draw(st.sampled_from((1, 4, 7, 16, 36))), channels, *window),
            groups=groups,
            stride=tuple(draw(st.integers(1, 3)) for _ in window),
            dilation=tuple(draw(st.integers(1, 3)) for _ in window),
            padding=tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in window),
            alpha=draw(st.sampled_from((1.0, 2.0))),
            beta=draw(st.sampled_from((0.0, 0.5))),
            dtype=dtype,
            y_dtype=draw(st.sampled_from(written)),
        )
    except ProblemError:
        return draw(st.nothing())


@each(DYNAMIC + [solver for solver in DOT if solver.is_dynamic])
def test_drawn_shapes(solver: GpuSolver, as_gpu: Device) -> None:
    # Many at a time: each call of the kit compiles the kernels once.
    drawn = st.lists(problems(solver), min_size=8, max_size=10)
    assert_drawn(solver, as_gpu, drawn, examples=1, refuses=False)


def assert_exact(device: Device, solver: GpuSolver, problem: ConvProblem, config: Config) -> None:
    """Run a config on whole numbers, on which sums are exact in any order."""
    writes = problem.direction.writes
    first, second = integer_data(problem, 0)
    numbers = dict(zip(problem.direction.reads, (first, second), strict=True))
    memory = {name: filled_memory(problem, name, numbers.get(name), POISON) for name in "xwy"}
    solution = solver.solution(problem, device.target, config)
    outcome = GuardedRunner(device).run(problem, solution, memory)
    assert outcome.complaints == [], (problem, config)
    result = tensor_view(problem, writes, outcome.result)
    expected = reference_convolution(problem, first, second, None)
    assert (result == expected).all(), (problem, config)


@each(DYNAMIC)
def test_tiles_that_cover_more_than_they_have(solver: GpuSolver, as_gpu: Device) -> None:
    gathered = problem_of(solver, (2, 32, 9, 11), (48, 32, 3, 3), padding=1)
    pointwise = problem_of(solver, (3, 36, 6, 6), (40, 36, 1, 1))
    # CPUs compile larger tiles for minutes.
    small = [tile for tile in RATES if tile.tile_m * tile.tile_n <= 2048]
    for number, tile in enumerate(small):
        problem = (gathered, pointwise)[number % 2]
        config = Config(tile.values, parts=1 + number % 3)
        if config.replace(parts=1) in solver.search_space(problem, as_gpu.target):
            assert_exact(as_gpu, solver, problem, config)


@each(DYNAMIC)
def test_tiles_that_end_in_the_last_image(solver: GpuSolver, as_gpu: Device) -> None:
    """Groups of four behind the last position stay aligned, which some devices insist on."""
    shapes = [
        problem_of(solver, (1, 32, 14, 14), (64, 32, 1, 1)),
        problem_of(solver, (3, 4, 8, 10), (6, 4, 1, 1)),
        problem_of(solver, (1, 5, 1, 1), (8, 5, 1, 1)),
        problem_of(solver, (1, 4, 8, 8), (8, 1, 3, 3), groups=4, stride=2),
    ]
    assert_solver(solver, as_gpu, shapes=shapes, every_variant=False)


@each([s for s in DYNAMIC if s.direction is Direction.BACKWARD_DATA])
def test_phases_computed_together(solver: GpuSolver, as_gpu: Device) -> None:
    shapes = [
        problem_of(solver, (2, 3, 13, 14), (32, 3, 7, 7), stride=2, padding=3),
        problem_of(solver, (1, 5, 17, 19), (16, 5, 5, 4), stride=(3, 2), padding=(2, 1), beta=0.5),
        problem_of(solver, (2, 2, 9, 12), (32, 2, 2, 3), stride=(3, 1), dilation=(1, 2)),
        problem_of(solver, (1, 3, 16, 16), (48, 3, 8, 8), stride=8),
        problem_of(solver, (2, 3, 18, 21), (16, 3, 11, 11), stride=4, padding=2),
        problem_of(solver, (1, 3, 10, 9), (16, 3, 4, 4), stride=2, padding=((1, 1), (3, 0))),
        problem_of(solver, (1, 2, 5, 6, 7), (16, 2, 3, 3, 3), stride=2, padding=1),
        # Columns of several phases would take each other's places for channels of a bias.
        problem_of(solver, (1, 3, 16, 16), (48, 3, 8, 8), stride=8, bias=True, activation="relu"),
    ]
    assert_solver(solver, as_gpu, shapes=shapes, every_variant=False)


@each(DOT)
def test_words_of_int8_are_exact(solver: DotSolver, as_gpu: Device) -> None:
    """Channels that fill words and that do not; points, tables, groups, parts of sums."""
    shapes = [
        problem_of(solver, (3, 66, 6, 6), (40, 66, 1, 1)),
        problem_of(solver, (2, 3, 17, 19), (33, 3, 5, 4), stride=2, padding=((1, 2), (3, 0))),
        problem_of(solver, (1, 132, 3, 3), (20, 132, 3, 3), padding=1, alpha=2.0, beta=1.0),
        problem_of(solver, (1, 20, 9), (6, 10, 3), groups=2, dilation=2),
    ]
    shapes = shapes if solver.is_dynamic else shapes[1:2]
    int8 = [replace(p, dtype=DataType.INT8, y_dtype=DataType.INT32) for p in shapes]
    report = assert_solver(solver, as_gpu, shapes=int8, every_variant=False)
    assert len(report.problems) == len(int8)


@each(DOT)
def test_whole_words_need_no_packing(solver: DotSolver) -> None:
    for channels, is_whole in ((64, True), (66, False)):
        problem = problem_of(
            solver, (8, channels, 28, 28), (64, channels, 3, 3), padding=1, dtype=DataType.INT8
        )
        solution = solver.solution(problem, H200)
        if solver.channels_last and is_whole:
            assert solution.total_workspace == 0
        else:
            words = -(-channels // 4)
            assert solution.workspace == 4 * 8 * words * 28 * 28
            assert solution.packed == 4 * 64 * words * 9
        assert solution.total_workspace == solver.workspace_size(problem, H200)
        assert solver.default_config(problem, H200) in solver.search_space(problem, H200)
    plain = replace(H200, identity="", features=frozenset({"nv-ptx"}))
    for changed, target, reason in (
        (problem, plain, Reason.FEATURE),
        (replace(problem, dtype=DataType.FLOAT32, y_dtype=DataType.FLOAT32), H200, Reason.DTYPE),
    ):
        answer = solver.takes(changed, target)
        assert isinstance(answer, Rejected)
        assert answer.reason is reason


@each(SOLVERS)
def test_other_devices_and_sizes_are_refused(solver: GpuSolver) -> None:
    small = problem_of(solver, (1, 4, 8, 8), (4, 4, 3, 3))
    huge = problem_of(solver, (1, 1, 2**16, 2**16), (1, 1, 1, 1))
    cpu = replace(H200, identity="", kind=DeviceKind.CPU)
    poor = replace(H200, identity="", local_memory=1024, features=frozenset())
    narrow = replace(H200, identity="", max_work_group=32)
    for problem, target, reason in (
        (small, cpu, Reason.DEVICE_KIND),
        (small, poor, Reason.LOCAL_MEMORY),
        (small, narrow, Reason.WORK_GROUP),
        (huge, H200, Reason.SIZE_LIMIT),
        (replace(small, dtype=DataType.FLOAT64, y_dtype=DataType.FLOAT64), H200, Reason.DTYPE),
    ):
        answer = solver.takes(problem, target)
        assert isinstance(answer, Rejected)
        assert answer.reason is reason


@each(SOLVERS)
def test_ordinary_layers_need_no_workspace(solver: GpuSolver) -> None:
    problem = problem_of(solver, (64, 64, 56, 56), (64, 64, 3, 3), padding=1)
    size = solver.workspace_size(problem, H200)
    assert (size > 0) is (solver.direction is Direction.BACKWARD_WEIGHTS)
    assert solver.workspace_size(problem, H200, 0) == 0


@each(SOLVERS)
def test_the_index_is_between_last_resorts_and_the_peak(solver: GpuSolver) -> None:
    for problem in (
        problem_of(solver, (64, 64, 56, 56), (64, 64, 3, 3), padding=1),
        problem_of(solver, (1, 1, 1, 1), (1, 1, 1, 1)),
        problem_of(solver, (8, 512, 28, 28), (512, 512, 1, 1)),
    ):
        index = solver.wti(problem, H200)
        assert index is not None
        assert 0.01 < index < 0.8


@each(SOLVERS)
def test_few_results_are_summed_in_parts(solver: GpuSolver) -> None:
    problem = problem_of(solver, (1, 512, 7, 7), (512, 512, 3, 3), padding=1)
    config = solver.default_config(problem, H200)
    assert config in solver.search_space(problem, H200)
    if solver.direction is not Direction.BACKWARD_WEIGHTS:
        assert config.integer("parts") > 1


def test_measured_tiles_are_in_the_search_space() -> None:
    (solver, *_) = (s for s in SOLVERS if s.direction is Direction.BACKWARD_WEIGHTS)
    problem = problem_of(solver, (64, 256, 14, 14), (256, 256, 3, 3), padding=1)
    space = solver.search_space(problem, H200)
    for tile in RATES:
        assert Config(tile.values, parts=1) in space, tile
        assert Tile.of(Config(tile.values, parts=1)) == tile


@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.FLOAT16])
def test_nvidias_assembler_is_told_where_it_would_spill(dtype: DataType) -> None:
    (solver, *_) = (s for s in DYNAMIC if s.solver_id == "igemm-gpu-nhwc-fwd")
    problem = problem_of(solver, (64, 512, 7, 7), (512, 512, 3, 3), padding=1, dtype=dtype)
    crowded = Config(Tile(64, 64, 16, 8, 16).values, parts=1)
    elsewhere = replace(H200, identity="", features=frozenset())
    for target, limited in ((H200, True), (elsewhere, False)):
        (program,) = solver.solution(problem, target, crowded).programs
        assert any("maxrregcount" in option for option in program.options) == limited


@pytest.mark.parametrize(
    ("solver_id", "x", "w", "dtype", "tile", "limited"),
    [
        # Narrow tiles: floats of two axes were measured without a limit.
        ("nhwc-fwd", (4, 64, 28, 28), (64, 64, 3, 3), "float32", (16, 128, 16, 4, 16), False),
        ("nhwc-fwd", (4, 64, 28, 28), (64, 64, 3, 3), "float16", (16, 128, 16, 4, 16), True),
        ("nchw-fwd", (4, 64, 28, 28), (64, 64, 5, 5), "int8", (32, 64, 16, 8, 8), True),
        ("nchw-fwd-dot4", (4, 64, 28, 28), (64, 64, 5, 5), "int8", (32, 64, 16, 8, 8), False),
        ("nchw-bwd-weights", (4, 32, 8, 8), (16, 32, 1, 1), "float16", (32, 32, 16, 8, 8), True),
        ("nhwc-bwd-weights", (4, 64, 8, 8), (64, 64, 1, 1), "bfloat16", (16, 128, 16, 4, 16), True),
        ("nchw-bwd-data", (2, 3, 9, 9, 9), (64, 3, 7, 7, 7), "float32", (32, 64, 16, 8, 8), True),
        # Wide ones: all phases at once.
        ("nhwc-bwd-data", (4, 3, 44, 44), (64, 3, 11, 11), "float16", (128, 64, 16, 16, 8), True),
        ("nhwc-bwd-data", (4, 3, 44, 44), (64, 3, 11, 11), "float32", (128, 64, 16, 16, 8), False),
        ("nhwc-bwd-data", (4, 64, 9, 9), (64, 64, 3, 3), "float16", (128, 64, 16, 16, 8), False),
    ],
)
def test_the_assembler_is_told_where_elements_take_more_registers(
    solver_id: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str,
    tile: tuple[int, int, int, int, int],
    limited: bool,
) -> None:
    (solver,) = (s for s in (*DYNAMIC, *DOT) if s.solver_id == f"igemm-gpu-{solver_id}")
    stride = 4 if w[-1] == 11 else 1
    problem = problem_of(solver, x, w, padding=w[-1] // 2, stride=stride, dtype=dtype)
    config = Config(Tile(*tile).values, parts=1)
    assert config in solver.search_space(problem, H200)
    program = solver.solution(problem, H200, config).steps[-1].kernel.program  # type: ignore[union-attr]
    assert any("maxrregcount" in option for option in program.options) is limited


@each(DYNAMIC)
def test_kernels_compile_alone(solver: GpuSolver, as_gpu: Device) -> None:
    problem = problem_of(solver, (1, 4, 8, 8), (4, 4, 3, 3))
    for program in solver.solution(problem, as_gpu.target).programs:
        assert as_gpu.compile(replace(program, defines=()))
