"""What hiprtc makes of the kernels: registers, memory, occupancy by architecture; needs no GPU.

python benchmarks/hip_code_objects.py --target gfx90a 'conv -n 16 -c 64 -H 56 -W 56 -k 64'
"""

from __future__ import annotations

import argparse
import sys

from convfind.errors import KernelBuildError
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.types import Direction
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


def main() -> None:
    """Print one line for each kernel of each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="+", help="MIOpenDriver lines; all directions are taken")
    parser.add_argument("--target", action="append", required=True)
    options = parser.parse_args()
    check_runtime()
    from convfind_backend_hip.compiler import Compiler
    from convfind_backend_hip.target import absent

    layers = [ConvProblem.from_driver(line) for line in options.problems]
    problems = tuple(layer.with_direction(way) for layer in layers for way in Direction)
    sys.stdout.write("| target | kernel | VGPRs | AGPRs | SGPRs | LDS | scratch | waves/CU |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|---|\n")
    for arch in options.target:
        target = absent(arch)
        compiler = Compiler(target)
        for program in programs_for(default_registry(), problems, target):
            try:
                binary = compiler.compile(program)
            except KernelBuildError as exc:
                sys.stdout.write(f"| {arch} | {exc} |\n")
                continue
            for kernel in kernels_of(compiler.opened(program, binary)):
                cells = (
                    *(arch, kernel.name, kernel.vector_registers, kernel.accumulation_registers),
                    *(kernel.scalar_registers, kernel.local_memory, kernel.scratch),
                    waves_per_unit(kernel, arch),
                )
                sys.stdout.write("| " + " | ".join(map(str, cells)) + " |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
