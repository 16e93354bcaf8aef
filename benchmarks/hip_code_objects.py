"""What hiprtc makes of the kernels: registers, memory, occupancy by architecture; needs no GPU.

A row is a kernel in all its default configurations for the problems: the most of each, and the
fewest waves. ROCM_PATH says where hiprtc is.

python benchmarks/hip_code_objects.py --target gfx90a 'conv -n 16 -c 64 -H 56 -W 56 -k 64'
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.problem_text import parse_problem
from convfind.types import DataType, Direction
from convfind_backend_hip.backend import check_runtime
from convfind_backend_hip.cli import programs_for
from convfind_backend_hip.code_object import KernelFacts, kernels_of

_SIMDS = 4  # of a compute unit
_LOCAL_MEMORY = 64 * 1024


def waves_per_unit(kernel: KernelFacts, arch: str) -> int:
    """Waves that registers and local memory leave room for on a compute unit.

    Registers of a lane, their granule, and most waves of a SIMD: 256, 4, 10 on gfx9; 512 with those
    of the matrix cores, 8, 8 on gfx90a; 1024 of 32 lanes, 8, 16 on gfx1030.
    """
    most, registers, granule = {"gfx90a": (8, 512, 8), "gfx1030": (16, 1024, 8)}.get(
        arch.partition(":")[0], (10, 256, 4)
    )
    used = max(kernel.vector_registers, granule)
    by_registers = registers // (-(-used // granule) * granule)
    waves = _SIMDS * min(most, by_registers)
    if kernel.local_memory:
        group = -(-kernel.work_group // kernel.wave_size)
        waves = min(waves, _LOCAL_MEMORY // kernel.local_memory * group)
    return waves


def rows(arch: str, problems: tuple[ConvProblem, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield the cells of each kernel."""
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    compiler = Compiler(absent(arch))
    programs = programs_for(default_registry(), problems, absent(arch))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        binaries = list(threads.map(compiler.compile, programs))
    found: dict[str, list[KernelFacts]] = {}
    for program, binary in zip(programs, binaries, strict=True):
        for kernel in kernels_of(compiler.opened(program, binary)):
            found.setdefault(kernel.name, []).append(kernel)
    for name, kernels in sorted(found.items()):
        yield (
            *(arch, name, len(kernels)),
            max(kernel.vector_registers for kernel in kernels),
            max(kernel.accumulation_registers for kernel in kernels),
            max(kernel.scalar_registers for kernel in kernels),
            max(kernel.local_memory for kernel in kernels),
            max(kernel.scratch for kernel in kernels),
            min(waves_per_unit(kernel, arch) for kernel in kernels),
        )


def main() -> None:
    """Print one line for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "problems", nargs="+", help="driver lines or keys; all directions are taken"
    )
    parser.add_argument("--target", action="append", required=True)
    options = parser.parse_args()
    check_runtime()
    problems = tuple(
        layer.with_direction(way)
        for text in options.problems
        for layer in parse_problem(text)
        for way in Direction
        if way is Direction.FORWARD or layer.dtype is not DataType.INT8
    )
    header = (
        "target",
        "kernel",
        "builds",
        *("VGPRs", "AGPRs", "SGPRs", "LDS", "scratch", "waves/CU"),
    )
    sys.stdout.write(f"| {' | '.join(header)} |\n{'|---' * len(header)}|\n")
    for arch in options.target:
        for cells in rows(arch, problems):
            sys.stdout.write("| " + " | ".join(map(str, cells)) + " |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
