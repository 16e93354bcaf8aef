"""The kernels as hiprtc compiles them: registers, memory, occupancy by architecture; needs no GPU.

A row is a solver with all that it launches in its default configurations, of the problems given or,
without any, of the layers that the HIP backend's tests compile. A cell is the most of vector (and
accumulation) registers / scalar registers / bytes of local memory / of scratch memory, and the
fewest waves that a compute unit holds. ROCM_PATH says where hiprtc is.

python benchmarks/hip_code_objects.py --target gfx90a 'conv -n 16 -c 64 -H 56 -W 56 -k 64'
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from convfind.device.target import Target
from convfind.plugins.registry import default_registry
from convfind.problem.text import parse_problem
from convfind.solver.kernel_spec import Program
from convfind.types import DataType, Direction
from convfind_backend_hip.backend import check_runtime
from convfind_backend_hip.code_object import KernelFacts, kernels_of

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import shipped_programs

_LOCAL_MEMORY = 64 * 1024
#: SIMDs of a compute unit; of one of them: most waves, registers of a lane, and their granule.
_GFX9 = (4, 10, 256, 4)
_UNITS = {"gfx90a": (4, 8, 512, 8), "gfx1030": (2, 16, 1024, 16)}

Programs = dict[str, set[Program]]


def waves_per_unit(kernel: KernelFacts, arch: str) -> int:
    """Waves that registers and local memory leave room for on a compute unit.

    Accumulation registers are in the count of vector registers where they share a file (gfx90a).
    """
    simds, most, registers, granule = _UNITS.get(arch.partition(":")[0], _GFX9)
    used = max(kernel.vector_registers, kernel.accumulation_registers, granule)
    waves = simds * min(most, registers // (-(-used // granule) * granule))
    if kernel.local_memory:
        group = -(-kernel.work_group // kernel.wave_size)
        waves = min(waves, _LOCAL_MEMORY // kernel.local_memory * group)
    return waves


def programs_of(texts: list[str], target: Target) -> Programs:
    """Return what solvers launch for problems in all their directions."""
    if not texts:
        return shipped_programs.programs_of(target)
    found: Programs = {}
    for text in texts:
        for layer in parse_problem(text):
            for way in Direction if layer.dtype is not DataType.INT8 else [Direction.FORWARD]:
                problem = layer.with_direction(way)
                for solver in default_registry().solvers_for(target)[0]:
                    if solver.takes(problem, target):
                        programs = solver.solution(problem, target).programs
                        found.setdefault(solver.solver_id, set()).update(programs)
    return found


def compiled(arch: str, texts: list[str]) -> dict[str, list[KernelFacts]]:
    """Return the kernels of each solver."""
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    target = absent(arch)
    compiler = Compiler(target)

    def kernels(program: Program) -> tuple[KernelFacts, ...]:
        return kernels_of(compiler.opened(program, compiler.compile(program)))

    by_solver = programs_of(texts, target)
    programs = set().union(*by_solver.values())
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        facts = dict(zip(programs, threads.map(kernels, programs), strict=True))
    return {
        solver: [kernel for program in launched for kernel in facts[program]]
        for solver, launched in by_solver.items()
    }


def cell(kernels: list[KernelFacts], arch: str) -> str:
    """Return the figures of a solver on an architecture."""
    if not kernels:
        return ""
    vectors = str(max(kernel.vector_registers for kernel in kernels))
    if accumulation := max(kernel.accumulation_registers for kernel in kernels):
        vectors += f"+{accumulation}"
    cells = (
        vectors,
        max(kernel.scalar_registers for kernel in kernels),
        max(kernel.local_memory for kernel in kernels),
        max(kernel.scratch for kernel in kernels),
        min(waves_per_unit(kernel, arch) for kernel in kernels),
    )
    return " / ".join(map(str, cells))


def main() -> None:
    """Print one line for each solver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "problems", nargs="*", help="driver lines or keys; all directions are taken"
    )
    parser.add_argument("--target", action="append", help="default: those of the tests")
    options = parser.parse_args()
    check_runtime()
    targets = options.target or shipped_programs.AMD_ARCHITECTURES
    columns: dict[str, dict[str, list[KernelFacts]]] = {}
    for arch in targets:
        columns[arch] = compiled(arch, options.problems)
        count = sum(map(len, columns[arch].values()))
        sys.stderr.write(f"{arch}: {count} kernels of {len(columns[arch])} solvers\n")
    sys.stdout.write(f"| solver | {' | '.join(targets)} |\n{'|---' * (len(targets) + 1)}|\n")
    for solver in sorted(set().union(*columns.values())):
        cells = [cell(columns[arch].get(solver, []), arch) for arch in targets]
        if any(cells):  # others leave all to rocBLAS
            sys.stdout.write(f"| {solver} | {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
