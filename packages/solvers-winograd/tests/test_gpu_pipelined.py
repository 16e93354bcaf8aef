"""The pipelined Winograd solvers: the rings, and what comes out.

Elsewhere OpenCL C stands for the PTX: copies are done when they are asked for.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import pytest
from devices_for_tests import H200

from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Fill, Launch, Memory, ScalarArg
from convfind.testing import assert_solver
from convfind.types import Direction, Layout
from convfind_solvers_winograd.algorithms import F4X3
from convfind_solvers_winograd.gpu_pipelined import PipelinedSolver

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [PipelinedSolver(F4X3, way) for way in (Direction.FORWARD, Direction.BACKWARD_DATA)]
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)
LARGE_CACHE = replace(H200, identity="", arch="sm_89", cache=72 << 20)
EMULATED = {
    KernelSource("convfind", "kernel_include/convfind_nvidia.h"): """
#define cf_copy_16(to, from, size) \\
  vstore4(vload4(0, from), 0, (CF_LOCAL_PTR float *)(memory + (to) / 4))
#define CF_COPIES_COMMIT()
#define CF_COPIES_WAIT(count)
#undef CF_SHARED
#define CF_SHARED(array) 0
""",
    KernelSource("convfind_solvers_winograd", "kernels/gpu_tickets.h"): """
CF_INLINE int take_ticket(CF_GLOBAL int *counter) { return atomic_inc(counter); }
CF_INLINE void count_done(CF_GLOBAL int *counter) {
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  atomic_inc(counter);
}
CF_INLINE void wait_until_done(CF_GLOBAL int *counter, const int count) {
  while (atomic_add(counter, 0) < count) mem_fence(CLK_GLOBAL_MEM_FENCE);
}
CF_INLINE float load_of_others(CF_GLOBAL const float *from) { return *from; }
""",
}


@dataclass(frozen=True, slots=True)
class EmulatedSource(KernelSource):
    """A kernel file without PTX."""

    @property
    def text(self) -> str:
        text = KernelSource(self.package, self.path).text
        shared = KernelSource("convfind", "kernel_include/convfind_kernel.h").text
        for header, instead in EMULATED.items():
            ptx = header.text.replace(shared, "")
            assert text.count(ptx) == self.path.endswith("pipelined.cl")
            text = text.replace(ptx, instead)
        return text


def emulating(device: Device, units: int) -> Device:
    """Return an NVIDIA GPU as it is, and another device as one of so many units without PTX."""
    if device.target.has("nv-ptx"):
        return device
    changes: dict[str, Any] = {
        "kind": DeviceKind.GPU,
        "arch": "sm_80",
        "features": device.target.features | {"nv-ptx"},
        "compute_units": units,
        "cache": LARGE_CACHE.cache,
    }
    copied = copy.copy(device)
    copied.target = replace(device.target, identity="", **changes)

    def compile_emulated(program: Program) -> bytes:
        source = EmulatedSource(program.source.package, program.source.path)
        # Blocks that wait for one another run ten times as long as they compile if they are not
        # optimised. Optimised by PoCL 3.1, they end the process.
        options = ("-cl-opt-disable",) if device.target.platform.startswith("Portable") else ()
        return device.compile(replace(program, source=source, options=options))

    copied.compile = compile_emulated  # type: ignore[method-assign]
    return copied


def problem_for(
    solver: PipelinedSolver, x: tuple[int, ...], filters: int, **options: Any
) -> ConvProblem:
    options.setdefault("layout", Layout.NHWC)
    w = (filters, x[1] // options.get("groups", 1), 3, 3)
    return ConvProblem.create(solver.direction, x, w, **options)


@each
@pytest.mark.parametrize("units", [4, 132], ids=["slots used again", "a slot a block"])
def test_the_conformance_kit_finds_nothing(
    solver: PipelinedSolver,
    units: int,
    convfind_device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PipelinedSolver, "outdone_on", ())  # to run there, too
    shapes = [
        problem_for(solver, (2, 5, 9, 7), 3, padding=1),
        problem_for(solver, (1, 1, 3, 3), 1),
        problem_for(solver, (5, 20, 26, 30), 70, padding=(2, 0)),
        problem_for(solver, (3, 40, 13, 31), 24, padding=((0, 2), (3, 1)), alpha=0.5, beta=2.0),
        problem_for(solver, (9, 12, 21, 22), 8, padding=1, groups=4),
    ]
    device = emulating(convfind_device, units)
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@each
def test_counters_are_zeros_before_each_run(solver: PipelinedSolver) -> None:
    problem = problem_for(solver, (2, 16, 32, 32), 16, padding=1)
    zeros, launch = solver.solution(problem, LARGE_CACHE).steps
    assert isinstance(zeros, Fill)
    assert isinstance(launch, Launch)
    # One of tickets, and three for each of two blocks of 64 tiles.
    assert zeros == Fill(Memory.WORKSPACE, zeros.offset, 128 + 2 * 96)


@each
def test_rings_stay_in_the_cache(solver: PipelinedSolver) -> None:
    problem = problem_for(solver, (64, 64, 56, 56), 64, padding=1)
    solution = solver.solution(problem, LARGE_CACHE)
    whole = 4 * 36 * 64 * 14 * 14 * (64 + 64)
    assert solution.workspace < LARGE_CACHE.cache * 2 // 3 < whole


@each
def test_who_waits_holds_the_later_ticket(solver: PipelinedSolver) -> None:
    """A slot is free before the round in which it is filled again."""
    for cache in (8 << 20, 16 << 20, 60 << 20, 1 << 40):
        target = replace(LARGE_CACHE, identity="", cache=cache)
        problem = problem_for(solver, (8, 64, 56, 56), 64, padding=1)
        launch = solver.solution(problem, target).steps[-1]
        assert isinstance(launch, Launch)
        ahead, slots = (a.value for a in launch.arguments[-2:] if isinstance(a, ScalarArg))
        assert 0 < ahead < slots
        groups = launch.global_size[0] // launch.local_size[0]
        rounds = 8 * 14 * 14 // 64 + 1 + 2 * ahead  # blocks of 64 tiles, the last not full
        assert groups == rounds * (36 + 2 * 16)


@each
def test_devices_that_it_is_not_for(solver: PipelinedSolver) -> None:
    problem = problem_for(solver, (64, 64, 56, 56), 64, padding=1)
    assert solver.takes(problem, LARGE_CACHE)
    assert (solver.wti(problem, LARGE_CACHE) or 0.0) > 0.5
    for changes, reason in (
        ({"arch": "sm_75"}, Reason.ARCHITECTURE),
        ({"arch": "sm_90"}, Reason.ARCHITECTURE),
        ({"features": frozenset()}, Reason.FEATURE),
        ({"cache": 1 << 20}, Reason.SIZE_LIMIT),
    ):
        answer = solver.takes(problem, replace(LARGE_CACHE, identity="", **changes))
        assert isinstance(answer, Rejected)
        assert answer.reason is reason
