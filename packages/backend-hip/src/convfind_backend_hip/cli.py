"""``convfind compile``: kernels for a device that is not here."""

from __future__ import annotations

import click

from convfind.cli.app import App, ProblemCommand
from convfind.cli.problem_options import PROBLEM_HELP, takes_problems
from convfind.device.target import Target
from convfind.errors import KernelBuildError
from convfind.finddb import BinaryStore
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.solver import asking
from convfind.solver.kernel_spec import Program


@click.command(
    "compile",
    cls=ProblemCommand,
    help="Compile the kernels of problems for an AMD GPU, which need not be here.\n"
    + PROBLEM_HELP
    + """
Every solver that takes a problem is compiled in its default configuration. The binaries go to the
cache, from which a machine with the same ROCm release and that very target takes them.

\b
Example:
  convfind compile --target gfx90a:sramecc+:xnack- --x 16,64,56,56 --w 64,64,3,3 --padding 1
""",
)
@takes_problems
@click.option("--target", required=True, help="As the device names itself: gfx90a:sramecc+:xnack-.")
@click.option("--compute-units", type=click.IntRange(1), help="Of the device, if not the largest.")
@click.pass_obj
def compile_for(
    app: App, /, problems: tuple[ConvProblem, ...], target: str, compute_units: int | None
) -> None:
    """Fill the cache of binaries."""
    from convfind_backend_hip.backend import check_runtime

    check_runtime()
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    place = absent(target, compute_units)
    compiler = Compiler(place)
    folder = None if app.settings.disable_binary_cache else app.settings.user_db_path
    store = BinaryStore.open(folder)
    failed: dict[str, str] = {}
    programs = programs_for(app.registry, problems, place)
    for program in programs:
        try:
            store.put(program.key(place.compiler), compiler.compile(program))
        except KernelBuildError as exc:
            failed[str(program.source)] = str(exc)
    if app.json:
        counts = {"programs": len(programs), "failed": failed}
        app.emit({"target": place.identity, "driver": place.driver, **counts})
    else:
        done = len(programs) - len(failed)
        app.print(
            f"{place.identity}: {done} of {len(programs)} programs compiled", *failed.values()
        )
    if failed:
        raise click.ClickException(f"{len(failed)} programs do not build for {target}")


def programs_for(
    registry: Registry, problems: tuple[ConvProblem, ...], target: Target
) -> tuple[Program, ...]:
    """Return what the solvers that take the problems launch, each program once."""
    found: dict[Program, None] = {}
    for solver in registry.solvers_for(target)[0]:
        for problem in problems:
            if asking.takes(solver, problem, target):
                recipe = asking.recipe(solver, problem, target)
                found.update(dict.fromkeys(recipe.programs))
    return tuple(found)
