"""Memory that finds on a CPU leave to each other: copies of rings, and what is written anew."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from convfind.checking import scratch as scratch_module
from convfind.checking.random_numbers import COUNT, Part, RandomNumbers, ring_of, start_of
from convfind.checking.ring_copies import RingCopies
from convfind.checking.scratch import Scratch
from convfind.checking.tensor_set import has_contents
from convfind.checking.workbench import Candidate, Workbench
from convfind.errors import VerificationError
from convfind.finddb import BinaryStore, FindDb
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.problem.activation import Activation
from convfind.runtime.kernel_cache import KernelCache
from convfind.runtime.session import Session
from convfind.types import DataType
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.gemm.solver_list import solvers

PROBLEM = ConvProblem.forward(x=(2, 16, 20, 20), w=(24, 16, 1, 1))
FUSED = PROBLEM.with_epilogue(bias=True, activation=Activation("relu"))
SOLVER = next(one for one in solvers() if one.solver_id == "opencl-gemm-pointwise-fwd")
NUMBERS = ring_of(DataType.FLOAT32, "clipped", 0)


@pytest.fixture
def session(device: OpenCLDevice) -> Session:
    if not device.has_parts:
        pytest.skip("its buffers have no parts")
    kernels = KernelCache(device, BinaryStore.open(None), 1)
    return Session(device, Registry.build([], load_entry_points=False), FindDb.open(None), kernels)


def copies_on(session: Session, number: int = 0) -> RingCopies:
    copies = RingCopies.on(session, number)
    assert copies is not None
    return copies


def scratch_on(session: Session) -> Scratch:
    scratch = Scratch.on(session)
    assert scratch is not None
    return scratch


def on_the_bench(session: Session, problem: ConvProblem) -> tuple[Workbench, Candidate]:
    workbench = Workbench(problem, session, constant_weights=False)
    workbench.make_ready(verify=True)
    recipe = SOLVER.solution(problem, session.target)
    loaded = session.kernels.load_or_raise(recipe.programs)
    return workbench, workbench.candidate(recipe, loaded)


def ring_copies(session: Session) -> list[Any]:
    return [kept.buffer for name, kept in session.kept.items() if name != "scratch"]


@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.BFLOAT16, DataType.INT8])
def test_a_tensor_has_the_numbers_that_it_is_a_part_of(session: Session, dtype: DataType) -> None:
    numbers = ring_of(dtype, "clipped", 0)
    for start, count in ((2048, 1), (0, 1_000_003), (1024 * 255, 3_000_000)):
        part = Part(numbers, start, count)
        one, other = (copies_on(session, number).tensor(part) for number in range(2))
        assert one is not None
        assert other is not None
        assert has_contents(session.device, one, part.values())
        assert has_contents(session.device, other, part.values())
        assert not session.device.overlap(one, other)


def test_tensors_nearly_as_large_as_a_ring_are_parts_of_its_copies_wherever_they_begin(
    session: Session,
) -> None:
    for drawn in (1, 100_003):
        part = Part(NUMBERS, start_of(4_000_000, drawn), 4_000_000)
        tensor = copies_on(session).tensor(part)
        assert tensor is not None
        assert has_contents(session.device, tensor, part.values())


def test_what_is_written_stays_for_the_next_find(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies_on(session).tensor(Part(NUMBERS, 1024, 500_000))
    written: list[int] = []
    monkeypatch.setattr(
        session.device, "copy_in", lambda buffer, data: written.append(int(data.size))
    )
    copies_on(session).tensor(Part(NUMBERS, 4096, 400_000))
    assert written == []
    copies_on(session).tensor(Part(NUMBERS, 4096, 600_000))
    assert written == [2_416_640 - 2_007_040], "whole pages"


def test_what_goes_on_where_the_ring_begins_is_in_no_copy(session: Session) -> None:
    assert copies_on(session).tensor(Part(NUMBERS, 1, COUNT)) is None
    large = RandomNumbers(DataType.FLOAT32, "clipped", 0)
    large.ring = np.empty(session.target.global_memory // 256 // 4 + 1, np.float32)
    assert copies_on(session).tensor(Part(large, 0, 100)) is None


def test_pieces_lie_beside_each_other_and_serve_the_next_find(session: Session) -> None:
    scratch = scratch_on(session)
    first, second = scratch.allocate(5000), scratch.allocate(100)
    assert not session.device.overlap(first, second)
    other = scratch_on(session).allocate(5000)
    assert not session.device.overlap(first, other), "two are at work"
    place = first.block.place()  # type: ignore[attr-defined]
    del scratch, first
    gc.collect()
    again = scratch_on(session).allocate(70_000)
    assert again.block.place() == place  # type: ignore[attr-defined]
    assert again.size == 70_000


def test_more_than_there_is_comes_from_the_device(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch_module, "_MOST", 1 << 20)
    scratch = scratch_on(session)
    kept = session.kept["scratch"].buffer
    assert kept.size == 1 << 20
    assert not session.device.overlap(kept, scratch.allocate((1 << 20) + 1))
    assert session.device.overlap(kept, scratch.allocate(1 << 20))
    assert not session.device.overlap(kept, scratch.allocate(1))


@pytest.mark.parametrize("problem", [PROBLEM, FUSED])
def test_who_wrote_into_a_copy_in_an_earlier_find_harms_nobody_later(
    session: Session, problem: ConvProblem
) -> None:
    on_the_bench(session, problem)
    for buffer in ring_copies(session):
        session.device.fill(buffer, 1)
    workbench, candidate = on_the_bench(session, problem)
    candidate.verify(SOLVER)
    candidate.sample()
    candidate.confirm(SOLVER)
    assert [place.changed() for place in workbench.sets] == [None] * len(workbench.sets)


@pytest.mark.parametrize("problem", [PROBLEM, FUSED])
def test_who_writes_into_a_copy_each_time_is_refused(
    session: Session, problem: ConvProblem
) -> None:
    _, candidate = on_the_bench(session, problem)
    candidate.verify(SOLVER)
    run = candidate.run_on

    def spoiling(place: Any) -> float:
        took = run(place)
        session.device.fill(place.args.x, 1)
        return took

    candidate.run_on = spoiling  # type: ignore[method-assign]
    with pytest.raises(VerificationError, match="changed x, which it only reads"):
        candidate.confirm(SOLVER)


@pytest.mark.parametrize("problem", [PROBLEM, FUSED])
def test_a_wrong_result_of_what_is_timed_is_found(session: Session, problem: ConvProblem) -> None:
    _, candidate = on_the_bench(session, problem)
    candidate.verify(SOLVER)
    run = candidate.run_on

    def wrong(place: Any) -> float:
        took = run(place)
        memory = place.results["y"]
        one = session.device.part(memory.buffer, memory.guard + 1024, 4)
        session.device.write(one, np.array([100], np.float32))
        return took

    candidate.run_on = wrong  # type: ignore[method-assign]
    with pytest.raises(VerificationError, match="wrong when it was timed"):
        candidate.confirm(SOLVER)


def test_candidates_are_checked_on_tensors_that_are_written_anew(session: Session) -> None:
    for problem in (PROBLEM, FUSED):
        workbench, _ = on_the_bench(session, problem)
        mine = workbench.first.args
        for buffer in ring_copies(session):
            assert not session.device.overlap(buffer, mine.x)
            assert not session.device.overlap(buffer, mine.w)
