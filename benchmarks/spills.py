"""Registers and spills of the GPU kernels, as NVIDIA's driver reports them when it assembles them.

    python benchmarks/spills.py benchmarks/layers/headline.txt --device opencl:nvidia --workers 16

Takes every solver in its default config and in each config that packages ship for a layer, in both
layouts. The driver's cache is off: what comes from there is not assembled, and nothing is said of
it. Exit code 1: a kernel spills, waits for each of its matrix products, or has no figures. Before
all others comes a kernel that must spill; where it does not, figures of others mean nothing, and
the exit code is 1, too. Exit code 3: the time was over before every program was built.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from itertools import product
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import convfind
from convfind.cli.problem_options import directions_of
from convfind.errors import ConvfindError
from convfind.handle import Handle
from convfind.kit.assembler_log import figures_in
from convfind.problem import ConvProblem
from convfind.problem.text import read_layer_file
from convfind.runtime.backend import Device
from convfind.solver import Solver, TunableSolver
from convfind.solver.config import Config
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, Recipe
from convfind.types import DataType, Direction, Layout

_LAYERS = Path(__file__).parent / "layers"
_TF32 = "tf32"
_UNREACHED = 3  # exit code


@dataclass(frozen=True, slots=True)
class Spilling(KernelSource):
    """A kernel of 1024 items, which leaves 64 registers to each, with 128 values alive at once."""

    @property
    def text(self) -> str:
        """The kernel."""
        words = KernelSource("convfind", "kernel_include/convfind_kernel.h").text
        return f"""{words}
            CF_KERNEL CF_WORK_GROUP_SIZE(1024, 1, 1) void spilling(CF_GLOBAL float *x) {{
              const size_t at = CF_GLOBAL_ID(0);
              float value[128];
              CF_UNROLL
              for (int i = 0; i < 128; ++i) value[i] = x[at + i * 1024];
              CF_BARRIER();
              CF_UNROLL
              for (int i = 0; i < 128; ++i) x[at + i * 1024] = value[i] * value[127 - i];
            }}
        """


MUST_SPILL = Program(Spilling("benchmarks", "spilling"))


@dataclass(frozen=True, slots=True)
class Figures:
    """The assembler's figures of a kernel; memory in bytes of an item."""

    entry: str
    registers: int | None  # None: nothing was said
    stack: int = 0
    spilled: int = 0  # stored and loaded
    serialized: bool = False  # products of the matrix units wait for each other
    failure: str = ""  # why there are none

    @property
    def is_bad(self) -> bool:
        """True where the kernel spills, or where nothing is known of it."""
        return self.registers is None or self.spilled > 0 or self.serialized


@dataclass(frozen=True, slots=True)
class Use:
    """Who launches a program, and for what."""

    solver: str
    problem: str
    config: str
    entries: tuple[str, ...]


def figures_of(log: str, entries: Iterable[str]) -> list[Figures]:
    """Read a build log: one set of figures for each of the kernels."""
    found = figures_in(log)
    missing = f"no registers in the build log: {log.strip()[:200]!r}"
    return [
        Figures(entry, known.registers, known.stack, known.spilled, known.is_serialized)
        if (known := found.get(entry)) is not None and known.registers is not None
        else Figures(entry, None, failure=missing)
        for entry in entries
    ]


def uses_of(
    handle: Handle, problems: Sequence[ConvProblem], patterns: Sequence[str]
) -> tuple[dict[Program, Use], list[tuple[Use, Figures]]]:
    """Programs of all solvers for the problems: those that serve all sizes first, then in turns.

    And what solvers raised instead of describing their programs.
    """
    raised: list[tuple[Use, Figures]] = []
    found: dict[Program, tuple[bool, int, Use]] = {}
    for solver in handle.registry.solvers_for(handle.target)[0]:
        if not any(fnmatch(solver.solver_id, pattern) for pattern in patterns):
            continue
        count = 0
        for problem in problems:
            if not solver.takes(problem, handle.target):
                continue
            for config in _configs(handle, solver, problem):
                try:
                    solution = solver.solution(problem, handle.target, config)
                except Exception as error:
                    use = Use(solver.solver_id, problem.key, str(config or ""), ())
                    raised.append((use, Figures("", None, failure=f"raised {error!r}")))
                    continue
                for program in solution.programs:
                    if program not in found:
                        use = Use(
                            solver.solver_id,
                            problem.key,
                            str(solution.config or ""),
                            _entries(solution, program),
                        )
                        found[program] = (not solver.is_dynamic, count, use)
                        count += 1
    ordered = sorted(found.items(), key=lambda item: item[1][:2])
    return {program: use for program, (_, _, use) in ordered}, raised


def _configs(handle: Handle, solver: Solver, problem: ConvProblem) -> Iterator[Config | None]:
    """The default config, and those that packages ship."""
    yield None
    configs = []
    database, version = handle.session.database, solver.version
    stored = database.lookup(handle.target, problem)
    for record in stored.entry.records if stored else ():
        if (record.solver, record.solver_version) == (solver.solver_id, version) and record.config:
            configs.append(Config(record.config))
    if tuned := database.config(handle.target, problem, solver.solver_id, version):
        configs.append(tuned)
    if isinstance(solver, TunableSolver) and configs:
        space = solver.search_space(problem, handle.target)
        yield from (config for config in configs if config in space)


def _entries(solution: Recipe, program: Program) -> tuple[str, ...]:
    launches = (s for s in (*solution.prepare, *solution.steps) if isinstance(s, Launch))
    return tuple(sorted({s.kernel.entry for s in launches if s.kernel.program == program}))


class _Worker:
    """A process with two contexts: what the second says is of assembling alone."""

    compiler: Device
    loader: Device

    @classmethod
    def start(cls, device: str) -> None:
        cls.compiler = convfind.open(device).session.device
        cls.loader = convfind.open(device).session.device

    @classmethod
    def figures(
        cls, program: Program, entries: Sequence[str], deadline: float
    ) -> list[Figures] | None:
        """Figures of a program's kernels, None where the time is over."""
        if time.time() > deadline:
            return None
        try:
            cls.loader.load(program, cls.compiler.compile(program))
        except ConvfindError as error:
            return [Figures(entry, None, failure=str(error)) for entry in entries]
        return figures_of(cls.loader.build_log(program), entries)  # type: ignore[attr-defined]


def assembled(
    device: str, uses: Mapping[Program, Use], workers: int, limit: float
) -> Iterator[tuple[Use, list[Figures] | None]]:
    """Build programs in processes, each of which assembles one at a time."""
    deadline = time.time() + limit
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _Worker.start, (device,)) as pool:
        tasks = {
            pool.submit(
                _Worker.figures, program, use.entries, deadline if use.solver else math.inf
            ): use
            for program, use in uses.items()
        }
        for task in as_completed(tasks):
            yield tasks[task], task.result()


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--device", default="opencl:nvidia", show_default=True)
@click.option("--direction", "directions", default="all", show_default=True, help="fwd,bwd-data,..")
@click.option(
    "--types", default="float32,tf32,float16,bfloat16,int8", show_default=True,
    help="tf32: float32 that may be rounded.",
)  # fmt: skip
@click.option("--solvers", default="*", show_default=True, help="Patterns of ids.")
@click.option("--workers", default=os.cpu_count() or 1, help="Processes.  [one a core]")
@click.option("--time-limit", default=math.inf, help="Build nothing after so many seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(
    files: tuple[Path, ...],
    device: str,
    directions: str,
    types: str,
    solvers: str,
    workers: int,
    time_limit: float,
    as_json: bool,
) -> None:
    """Check the kernels for the layers of FILES, by default all in benchmarks/layers."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"CUDA_CACHE_DISABLE": "1", "CUDA_CACHE_PATH": cache}
        with convfind.open(device) as handle:
            title = f"{handle.target.name}, {handle.target.platform}, {handle.target.driver}"
            wanted = [d for text in directions.split(",") for d in directions_of(text)]
            problems = list(_problems(files or sorted(_LAYERS.glob("*.txt")), wanted, types))
            uses, raised = uses_of(handle, problems, solvers.split(","))
        test = Use("", "", "", ("spilling",))
        rows = list(assembled(device, {MUST_SPILL: test} | uses, workers, time_limit))
    [[proof]] = [figures or [] for use, figures in rows if use is test]
    kernels = raised + [
        (use, kernel) for use, found in rows if use is not test for kernel in found or ()
    ]
    unreached = sum(found is None for _, found in rows)
    bad = [(use, kernel) for use, kernel in kernels if kernel.is_bad]
    if as_json:
        document = {
            "device": title,
            "must_spill": asdict(proof),
            "unreached": unreached,
            "kernels": [asdict(use) | asdict(kernel) for use, kernel in kernels],
        }
        click.echo(json.dumps(document, indent=1))
    else:
        Console(width=140).print(table_of(kernels, title))
        click.echo(f"the kernel that must spill: {proof}")
        for use, kernel in bad:
            click.echo(f"{use.solver} {use.problem} {use.config}: {kernel}")
        click.echo(f"{len(kernels)} kernels, {len(bad)} bad, {unreached} programs not reached")
    if bad or not proof.spilled:
        sys.exit(1)
    sys.exit(_UNREACHED if unreached else 0)


def _problems(
    files: Iterable[Path], directions: Sequence[Direction], types: str
) -> Iterator[ConvProblem]:
    """Each layer once in each direction, type and layout."""
    seen = set()
    for file in files:
        for layer in read_layer_file(file):
            for direction, name, channels_last in product(
                directions, types.split(","), (False, True)
            ):
                kind = DataType.FLOAT32 if name == _TF32 else DataType(name)
                if kind is DataType.INT8 and direction is not Direction.FORWARD:
                    continue
                plain = layer.problem.plain()
                layout = Layout.of(plain.spatial_rank, channels_last=channels_last)
                problem = replace(
                    plain.with_direction(direction),
                    dtype=kind, y_dtype=kind.result, allow_tf32=name == _TF32,
                    x_layout=layout, w_layout=layout, y_layout=layout,
                )  # fmt: skip
                if problem.key not in seen:
                    seen.add(problem.key)
                    yield problem


def table_of(kernels: Iterable[tuple[Use, Figures]], title: str) -> Table:
    """Return a line a solver, with the most of each figure."""
    by_solver: dict[str, list[Figures]] = {}
    for use, kernel in kernels:
        by_solver.setdefault(use.solver, []).append(kernel)
    table = Table(title=title)
    for heading in ("solver", "kernels", "registers", "stack", "spilled", "bad"):
        table.add_column(heading, justify="left" if heading == "solver" else "right")
    for solver, figures in sorted(by_solver.items()):
        cells = (
            len(figures),
            max(kernel.registers or 0 for kernel in figures),
            max(kernel.stack for kernel in figures),
            max(kernel.spilled for kernel in figures),
            sum(kernel.is_bad for kernel in figures),
        )
        table.add_row(solver, *map(str, cells))
    return table


if __name__ == "__main__":
    main()
