"""``convfind compile``: kernels ahead of the first find, also for a device that is not here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.table import Table

import convfind
from convfind.checking import oracle
from convfind.cli.app import App, ProblemCommand, new_table
from convfind.cli.policy_options import device_option
from convfind.cli.problem_options import (
    PROBLEM_HELP,
    Wish,
    layers_option,
    takes_problems_or_wish,
)
from convfind.cli.progress import ProgressBar
from convfind.device.kernel_figures import KernelFigures
from convfind.device.target import Target
from convfind.errors import BackendUnavailableError, KernelBuildError, SettingsError
from convfind.find.ahead import programs_of_networks
from convfind.finddb import BinaryStore, Gathered
from convfind.finddb.kernel_pack import write_kernels
from convfind.finddb.pack import Pack, check_name
from convfind.handle.opening import open_binaries
from convfind.heuristics.installed import installed_models
from convfind.plugins.registry import Registry
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.problem.common_networks import Network, Use, common_networks, usual_uses
from convfind.runtime.backend import AheadCompiler
from convfind.runtime.session import Session
from convfind.solver import asking
from convfind.solver.kernel_spec import Program
from convfind.text import format_bytes


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program and what became of it."""

    program: Program
    solvers: tuple[str, ...]
    kernels: tuple[KernelFigures, ...] = ()
    failure: str = ""


@click.command(
    "compile",
    cls=ProblemCommand,
    help="Compile the kernels of problems, or of common networks, ahead of the first find.\n"
    + PROBLEM_HELP
    + """
Every solver that takes a problem is compiled in its default configuration. Without any problem it
is the kernels with which finds of common networks begin (ResNet-50, VGG-16, MobileNet-V2 and
EfficientNet-B0 at several batch sizes, in training, and fused with bias and ReLU); --direction,
--batch, --dtype, --layout and --epilogue make it those of other forms of their layers.

The binaries go to the cache of this user. With --target they are for a device that need not be
here: a machine with the same compiler and that very device takes them from the cache. The table has
the registers of each kernel and the bytes that it spills, where the compiler tells. With --output
all of them, also those that the cache had, are written into a pack as well, a file that
`convfind db install` installs on other machines with the same compiler.

\b
Examples:
  convfind compile --device opencl:cpu
  convfind compile --target sm_90 --dtype float16 --layout NHWC
  convfind compile --target sm_90 --layers layers.txt -n 64
  convfind compile --target gfx90a:sramecc+:xnack- --x 1,64,14,14 --w 64,64,3,3
  convfind compile --device opencl:cpu --x 1,64,14,14 --w 64,64,3,3
  convfind compile --device opencl:cpu --layers layers.txt -n 4 --output kernels.lmdb
""",
)
@takes_problems_or_wish
@layers_option
@device_option
@click.option("--target", metavar="ARCH", help="As the device names itself: sm_90, gfx942.")
@click.option("--compute-units", type=click.IntRange(1), help="Of the target, if not the usual.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="*.lmdb; a pack of these kernels, too.",
)
@click.pass_obj
def compile_ahead(
    app: App,
    problems: tuple[ConvProblem, ...] | Wish,
    device: str | None,
    target: str | None,
    compute_units: int | None,
    output: Path | None,
) -> None:
    """Fill the cache of binaries."""
    if output is not None:
        check_name(output)
    if target is not None and device is not None:
        raise click.UsageError("--target is for a device that is not here: leave out --device")
    if target is not None:
        done = _compiled(app, problems, compiler_for(app.registry, target, compute_units), output)
    elif compute_units is not None:
        raise click.UsageError("--compute-units belongs to --target")
    else:
        with convfind.open(device, registry=app.registry, settings=app.settings) as handle:
            done = _compiled(app, problems, _Here(handle.session), output)
    failed = [one for one in done if one.failure]
    if failed:
        raise click.ClickException(f"{len(failed)} of {len(done)} programs do not build")


def _compiled(
    app: App,
    problems: tuple[ConvProblem, ...] | Wish,
    compiler: AheadCompiler,
    output: Path | None,
) -> Sequence[Compiled]:
    """Compile the programs of problems; of common networks, or for a pack, what the cache lacks."""
    store = open_binaries(app.settings, app.registry, compiler.target)
    if isinstance(problems, Wish):
        programs = _of_common_networks(app, problems, compiler.target, store)
    else:
        programs = programs_for(app.registry, problems, compiler.target)
    wanted = programs
    if output is not None or isinstance(problems, Wish):
        key = compiler.target.compiler
        wanted = {
            program: solvers
            for program, solvers in programs.items()
            if store.get(program.key(key)) is None
        }
    done = compiled_for(app, wanted, compiler, store)
    pack = None if output is None else _packed(output, programs, compiler.target, store)
    known = len(programs) - len(wanted)
    if app.json:
        app.emit(_document(compiler.target, done, known, pack))
    else:
        _print(app, compiler.target, done, known, pack)
    return done


def _packed(output: Path, programs: Iterable[Program], target: Target, store: BinaryStore) -> Pack:
    """Write what is compiled of the programs into a pack."""
    found = ((key, store.get(key)) for key in (one.key(target.compiler) for one in programs))
    return write_kernels(output, target, ((key, one) for key, one in found if one is not None))


def _of_common_networks(
    app: App, wish: Wish, target: Target, store: BinaryStore
) -> Mapping[Program, Sequence[str]]:
    """Return what finds of common networks begin with, with the solvers of each program."""
    uses = usual_uses()
    if wish.forms:
        batches = {batch: None for use in uses for batch in use.batches}
        uses = (Use(wish.forms, tuple(batches)),)
    if wish.batch is not None:
        uses = tuple(use._replace(batches=(wish.batch,)) for use in uses)
    models = installed_models(app.settings.user_db_path)
    session = Session.elsewhere(target, app.registry, store, models)
    networks = tuple(common_networks(uses, **wish.options))

    def one_by_one() -> Iterator[Network]:
        for number, network in enumerate(networks):
            progress("choose kernels", number, len(networks), "")
            yield network

    with ProgressBar() as progress:
        return programs_of_networks(one_by_one(), session, Policy())


class _Here:
    """The compiler of a device that is open, in as many processes as its runtime needs."""

    def __init__(self, session: Session) -> None:
        self.target: Target = session.target
        self.compile = session.kernels.compile

    def figures(self, program: Program, binary: bytes) -> Sequence[KernelFigures]:
        return ()


def compiler_for(registry: Registry, arch: str, compute_units: int | None) -> AheadCompiler:
    """Return the compiler of the backend that knows an architecture.

    Raises:
        SettingsError: no installed backend knows it.
        BackendUnavailableError: one might, and its compiler is missing.
    """
    missing: list[str] = []
    for name in registry.backends:
        try:
            found = registry.backends[name].compiler_for(arch, compute_units)
        except BackendUnavailableError as error:
            missing.append(f"{name}: {error}")
            continue
        if found is not None:
            return found
    if missing:
        raise BackendUnavailableError(f"{arch} cannot be compiled for; {'; '.join(missing)}")
    legal = (
        "an architecture that an installed backend compiles for, such as sm_90 "
        "(convfind-backend-cuda) or gfx942 (convfind-backend-hip)"
    )
    raise SettingsError("--target", arch, legal)


def compiled_for(
    app: App,
    wanted: Mapping[Program, Sequence[str]],
    compiler: AheadCompiler,
    store: BinaryStore,
) -> Sequence[Compiled]:
    """Compile and store programs, each with the solvers that launch it."""
    target = compiler.target

    def compiled(program: Program) -> tuple[Compiled, bytes | None]:
        solvers = tuple(wanted[program])
        try:
            binary = compiler.compile(program)
        except KernelBuildError as error:
            return Compiled(program, solvers, failure=str(error)), None
        return Compiled(program, solvers, tuple(compiler.figures(program, binary))), binary

    threads = max(1, app.settings.compile_parallel_level)
    done: dict[Program, Compiled] = {}
    with ProgressBar() as progress, Gathered(store) as stored, ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(compiled, program) for program in wanted]
        try:
            for job in as_completed(jobs):
                one, binary = job.result()
                done[one.program] = one
                if binary is not None:
                    stored.put(one.program.key(target.compiler), binary)
                progress("compile", len(done), len(jobs), str(one.program.source))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(done[program] for program in wanted)


def programs_for(
    registry: Registry, problems: Sequence[ConvProblem], target: Target
) -> dict[Program, tuple[str, ...]]:
    """Return what finds of the problems launch, with the solvers of each program."""
    found: dict[Program, dict[str, None]] = {}
    plain = dict.fromkeys(problem.plain() for problem in problems)
    if plain:
        found |= {program: {} for program in oracle.programs_for(plain, target, registry)}
    for problem in plain:
        for solver in registry.candidates_for(problem, target)[0]:
            if asking.applicability(solver, problem, target):
                for program in asking.recipe(solver, problem, target).programs:
                    found.setdefault(program, {})[solver.solver_id] = None
    return {program: tuple(solvers) for program, solvers in found.items()}


def _document(
    target: Target, done: Sequence[Compiled], known: int, pack: Pack | None
) -> dict[str, Any]:
    return {
        "target": target.identity,
        "driver": target.driver,
        "programs": len(done),
        "known": known,
        "failed": {str(one.program.source): one.failure for one in done if one.failure},
        "kernels": [
            {
                "source": str(one.program.source),
                "solvers": list(one.solvers),
                "kernel": kernel.entry,
                "registers": kernel.registers,
                "stack": kernel.stack,
                "spilled": kernel.spilled,
            }
            for one in done
            for kernel in one.kernels
        ],
        "pack": pack
        and {
            "output": str(pack.path),
            "bytes": pack.path.stat().st_size,
            "sha256": pack.sha256,
            "kernels": pack.manifest.kernels,
        },
    }


def _print(
    app: App, target: Target, done: Sequence[Compiled], known: int, pack: Pack | None
) -> None:
    built = [one for one in done if not one.failure]
    if any(one.kernels for one in built):
        app.print(_table(built))
    failures = (f"{one.program.source}: {one.failure}" for one in done if one.failure)
    others = f", {known} were there" if known else ""
    app.print(
        f"{target.identity}: {len(built)} of {len(done)} programs compiled{others}", *failures
    )
    if pack is not None:
        app.print(
            f"holds    {pack.manifest.kernels:,} programs, by {target.compiler}",
            f"file     {pack.path}, {format_bytes(pack.path.stat().st_size)}",
            f"sha256   {pack.sha256}",
        )


def _table(done: Sequence[Compiled]) -> Table:
    numbers = ("registers", "stack", "spilled")
    table = new_table("kernel", "source", "solver", *numbers, right=numbers)
    for one in done:
        for kernel in one.kernels:
            table.add_row(
                kernel.entry,
                one.program.source.path.rpartition("/")[2],
                _named(one.solvers),
                "-" if kernel.registers is None else str(kernel.registers),
                str(kernel.stack),
                str(kernel.spilled),
            )
    return table


def _named(solvers: Sequence[str]) -> str:
    """Return the first solver and the number of others; what checks results belongs to none."""
    if not solvers:
        return "checks"
    others = len(solvers) - 1
    return f"{solvers[0]} and {others} more" if others else solvers[0]
