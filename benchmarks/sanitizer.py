"""NVIDIA's compute-sanitizer over a problem of each kernel of the CUDA backend.

    python benchmarks/sanitizer.py --tool memcheck --tool racecheck --workers 8

Every kernel that a solver launches, in each direction and element type, runs once for the first
problem of `check_solvers.py` for which it is launched. Tensors, workspace and packed weights are
allocations of exactly their size: what a pool rounds up would hide the first bytes outside. Before
all others comes a kernel with a fault for each tool: where the tool finds nothing there, what it
does not say of others means nothing. Exit code 1: the sanitizer found something, a kernel did not
run, or the planted fault was not found. Exit code 3: the time was over before everything had run.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click

import convfind
from check_solvers import larger
from convfind.checking.draws import first_draw
from convfind.device.target import Target
from convfind.errors import ConvfindError
from convfind.handle import Handle
from convfind.kit.composed import Composed
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver import Solver, asking
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Recipe, Step
from convfind.testing import edge_cases, fused, variants

_UNREACHED = 3  # exit code
_BEGINS, _ENDS = "@begins", "@ends"
_OF_SANITIZER = "========="
_NO_COMPLAINTS = ("COMPUTE-SANITIZER", "SUMMARY")  # errors that a summary counts stand before it
_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_LONGEST = 24 * 3600.0  # seconds of one program
_MOST_LINES = 12  # of what is said of one run


@dataclass(frozen=True, slots=True)
class Job:
    """A solver, and a problem for which it launches kernels that no job before launches."""

    solver: str
    problem: str

    def __str__(self) -> str:
        return f"{self.solver} {self.problem}"


@dataclass(frozen=True, slots=True)
class Faulty(KernelSource):
    """A kernel with a fault for each tool.

    It writes behind y, reads another item's memory too early, and x, which nobody wrote; of one
    warp, half comes to a barrier, and half to the next.
    """

    @property
    def text(self) -> str:
        """The kernel."""
        words = KernelSource("convfind", "kernel_include/convfind_kernel.h").text
        return f"""{words}
            CF_KERNEL CF_WORK_GROUP_SIZE(64, 1, 1)
            void faulty(const CF_GLOBAL float *x, CF_GLOBAL float *y) {{
              CF_LOCAL float shared[64];
              const int at = CF_LOCAL_ID(0);
              shared[at] = x[at];
              y[at + 1] = shared[63 - at];
              if (at < 48) CF_BARRIER();
              CF_BARRIER();
            }}
        """


PLANTED = Job("", "the planted fault")


@dataclass(slots=True)
class Findings:
    """The words of one tool, by job; a program's own last words come first."""

    tool: str
    clean: int = 0
    complaints: dict[Job, list[str]] = field(default_factory=dict)
    unreached: int = 0


def jobs_of(handle: Handle, patterns: Sequence[str]) -> Iterator[Job]:
    """Yield the fewest jobs, taken in order, that launch every kernel of the solvers."""
    plain = list(dict.fromkeys(_problems()))
    completed = list(dict.fromkeys(map(fused, plain)))
    for solver in handle.registry.offered(fused(plain[0])):
        is_here = solver.backend_refusal(handle.target) is None
        if is_here and any(fnmatch(solver.solver_id, pattern) for pattern in patterns):
            problems = completed if isinstance(solver, Composed) else plain
            yield from _of_solver(solver, problems, handle.target)


def _of_solver(solver: Solver, problems: Sequence[ConvProblem], target: Target) -> Iterator[Job]:
    seen: set[tuple[object, ...]] = set()
    for problem in problems:
        if not asking.applicability(solver, problem, target):
            continue
        recipe = asking.recipe(solver, problem, target)
        kind = problem.direction, problem.dtype, problem.y_dtype
        kernels = {(*kind, *_name(step)) for step in (*recipe.prepare, *recipe.steps)}
        if not kernels <= seen:
            seen |= kernels
            yield Job(solver.solver_id, problem.key)


def _problems() -> Iterator[ConvProblem]:
    """Small ones at the edges of kernels first, then those that take more channels."""
    for case in edge_cases():
        yield from (problem.plain() for problem in variants(case))
    yield from larger()


def _name(step: Step) -> tuple[str, str]:
    if isinstance(step, Launch):
        return step.kernel.program.source.path, step.kernel.entry
    return type(step).__name__, ""


# -- under the sanitizer --------------------------------------------------------------------------


class Exactly:
    """CUDA memory of exactly so many bytes, as other libraries show theirs."""

    def __init__(self, size: int) -> None:
        from cuda.bindings import driver

        status, address = driver.cuMemAlloc(max(size, 1))
        if status:
            raise MemoryError(f"{size} bytes of CUDA memory: {status}")
        self._free, self._address, self._size = driver.cuMemFree, address, size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self._size,), "typestr": "|u1", "strides": None, "version": 3,
            "data": (int(self._address), False),
        }  # fmt: skip

    def close(self) -> None:
        """Free it."""
        self._free(self._address)


def run_jobs(device_name: str, jobs: Sequence[Job]) -> None:
    """Run jobs one after the other, and say of each when it begins and that it has ended."""
    with convfind.open(device_name) as handle:
        device = handle.session.device
        for number, job in enumerate(jobs):
            print(_BEGINS, number, flush=True)
            if job == PLANTED:
                _run_planted(device)
            else:
                problem = ConvProblem.from_key(job.problem)
                solver = handle.registry.solver(job.solver)
                _run(device, problem, asking.recipe(solver, problem, handle.target))
            print(_ENDS, number, flush=True)


def _run(device: Device, problem: ConvProblem, recipe: Recipe) -> None:
    """Run a recipe unbound, and bound where it packs weights."""
    draw = first_draw(problem)
    contents = {**draw.before, **draw.memory}
    sizes = {name: array.nbytes for name, array in contents.items()}
    scratch = {"workspace": recipe.total_workspace}
    _run_steps(device, recipe.unbound_steps, sizes | scratch, contents)
    if recipe.packed:
        scratch = {"workspace": recipe.workspace, "packed": recipe.packed}
        _run_steps(device, (*recipe.prepare, *recipe.steps), sizes | scratch, contents)


def _run_planted(device: Device) -> None:
    kernel = KernelSpec(Program(Faulty("benchmarks", "faulty")), "faulty")
    launch = Launch(kernel, (BufferArg("x"), BufferArg("y")), (64,), (64,))
    _run_steps(device, (launch,), {"x": 256, "y": 256}, {})


def _run_steps(
    device: Device, steps: Sequence[Step], sizes: Mapping[str, int], contents: Mapping[str, Any]
) -> None:
    """Run steps on memory of exactly these sizes; what has no contents is as it was allocated."""
    programs = {step.kernel.program for step in steps if isinstance(step, Launch)}
    loaded = {program: device.load(program, device.compile(program)) for program in programs}
    memory = {name: Exactly(size) for name, size in sizes.items() if size}
    buffers = {name: device.adopt(exact) for name, exact in memory.items()}
    for name, array in contents.items():
        if (buffer := buffers.get(name)) is not None:
            device.write(buffer, array)
    device.invoker(steps, loaded)(InvokeArgs(**buffers))
    device.synchronize()
    for exact in memory.values():
        exact.close()


# -- outside --------------------------------------------------------------------------------------


class Sanitized:
    """Programs under one tool of the sanitizer, each with a part of the jobs."""

    def __init__(self, sanitizer: str, tool: str, device: str, deadline: float) -> None:
        self._command = [
            # The driver tells where a kernel's parameters end by an error.
            *(sanitizer, "--tool", tool, "--report-api-errors", "no"),
            *(sys.executable, __file__, "--device", device, "--jobs"),
        ]
        self._deadline = deadline
        self.findings = Findings(tool)
        self._lock = threading.Lock()

    def run(self, jobs: Sequence[Job]) -> None:
        """Run all jobs: what a broken context leaves over goes to another program."""
        while jobs and time.time() < self._deadline:
            begun = self._run_some(jobs)
            if not begun:
                break
            jobs = jobs[begun:]
        with self._lock:
            self.findings.unreached += len(jobs)

    def _run_some(self, jobs: Sequence[Job]) -> int:
        """Run jobs in one program; return how many of them it has begun."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump([[job.solver, job.problem] for job in jobs], file)
            file.flush()
            program = subprocess.Popen(
                [*self._command, file.name],
                text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            left = max(self._deadline - time.time(), 0.0)
            watch = threading.Timer(min(left, _LONGEST), _end, (program,))
            watch.start()
            with program:
                assert program.stdout is not None
                said, ended = _by_job(program.stdout)
            watch.cancel()
        is_late = time.time() >= self._deadline
        for number, lines in said.items():
            if number in ended and not lines:
                self._note(jobs[number], [])
            elif lines or not is_late:
                self._note(jobs[number], lines or ["the program ended"])
        begun = max(said, default=-1) + 1
        return begun - 1 if is_late and begun and begun - 1 not in ended else begun

    def _note(self, job: Job, lines: list[str]) -> None:
        with self._lock:
            if lines:
                found = [line for line in lines if _OF_SANITIZER in line]
                self.findings.complaints[job] = (found or lines[::-1])[:_MOST_LINES]
            else:
                self.findings.clean += 1


def _end(sanitizer: subprocess.Popen[str]) -> None:
    """End the sanitizer and the program that it has started, which would outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(sanitizer.pid, signal.SIGKILL)


def _by_job(output: Iterator[str]) -> tuple[dict[int, list[str]], set[int]]:
    """Sort what a program and its sanitizer say by job; say which jobs have ended well.

    What stands after a job's end is the program's own: it has its say with the last one.
    """
    said: dict[int, list[str]] = {}
    ended: set[int] = set()
    before: list[str] = []
    for line in map(str.strip, output):
        word, _, number = line.partition(" ")
        if word == _BEGINS:
            said[int(number)] = []
        elif word == _ENDS:
            ended.add(int(number))
        elif not said:
            before.append(line)
        elif _is_complaint(line, of_program=max(said) not in ended):
            said[max(said)].append(line)
    if not said:
        raise click.ClickException("nothing ran: " + " / ".join(before[-_MOST_LINES:]))
    return said, ended


def _is_complaint(line: str, *, of_program: bool) -> bool:
    if not line or any(words in line for words in _NO_COMPLAINTS):
        return False
    return of_program or _OF_SANITIZER in line


@click.command()
@click.option("--device", default="cuda:0", show_default=True)
@click.option("--tool", "tools", multiple=True, type=click.Choice(_TOOLS), help="[memcheck]")
@click.option("--solvers", default="*", show_default=True, help="Patterns of ids.")
@click.option("--workers", default=os.cpu_count() or 1, help="Programs at a time.  [one a core]")
@click.option("--time-limit", default=math.inf, help="Seconds for each tool.")
@click.option("--sanitizer", default="compute-sanitizer", show_default=True, help="The program.")
@click.option("--jobs", type=click.Path(path_type=Path), hidden=True)
def main(
    device: str,
    tools: tuple[str, ...],
    solvers: str,
    workers: int,
    time_limit: float,
    sanitizer: str,
    jobs: Path | None,
) -> None:
    """Run every kernel under NVIDIA's compute-sanitizer."""
    if jobs is not None:
        run_jobs(device, [Job(*words) for words in json.loads(jobs.read_text())])
        return
    program = shutil.which(sanitizer)
    if program is None:
        raise click.ClickException(f"{sanitizer} is not there; it is part of the CUDA toolkit")
    try:
        with convfind.open(device) as handle:
            target, asked = handle.target, list(jobs_of(handle, solvers.split(",")))
    except ConvfindError as exc:
        raise click.ClickException(str(exc)) from exc
    click.echo(f"{target.name}, {target.driver}: {len(asked)} runs")
    is_bad, unreached = False, 0
    for tool in tools or _TOOLS[:1]:
        proof = Sanitized(program, tool, device, math.inf)
        proof.run([PLANTED])
        said = proof.findings.complaints.get(PLANTED, [])
        planted = next((line for line in said if _OF_SANITIZER in line), None)
        click.echo(f"{tool}: {PLANTED.problem}: {planted or 'not found'}")
        runs = Sanitized(program, tool, device, time.time() + time_limit)
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(runs.run, (asked[first::workers] for first in range(workers))))
        found = runs.findings
        for job, lines in found.complaints.items():
            click.echo("\n  ".join([f"{tool}: {job}", *lines]))
        click.echo(
            f"{tool}: {found.clean} clean, {len(found.complaints)} not, {found.unreached} unreached"
        )
        is_bad |= bool(found.complaints) or planted is None
        unreached += found.unreached
    if is_bad:
        sys.exit(1)
    sys.exit(_UNREACHED if unreached else 0)


if __name__ == "__main__":
    main()
