"""`compare.py` with plain multiply-adds alone, on NVIDIA GPUs; takes its arguments:

    SOLVERS="igemm-gpu-*-fixed,winograd-f4x3-gpu-*-fwd,winograd-f4x3-gpu-*-bwd-data"
    SOLVERS="$SOLVERS,winograd-f4x3-gpu-*-pipelined,winograd-f3x?-gpu-*"
    python benchmarks/plain_products.py benchmarks/layers/headline.txt --device opencl:nvidia \
        --peers pytorch --direction fwd,bwd-data,bwd-weights --solvers "$SOLVERS"

For most families `--solvers` takes those without matrix instructions. Winograd's unfused solvers
choose tiles with them where these are expected to be quicker: here none fits the device, and no
record names one; pipelined ones refuse devices on which these are quicker: here they do not.
Compiled code is searched for such instructions; those found go to stderr.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter

import click

from compare import main
from convfind.device.target import Target
from convfind.solver.kernel_spec import Program
from convfind_backend_opencl.compiler import Compiler
from convfind_solvers_winograd.gpu_pipelined import PipelinedSolver
from convfind_solvers_winograd.gpu_product import Tile

_INSTRUCTIONS = (b"mma.sync", b"wgmma", b"ldmatrix", b"HMMA")


def compare_plain_products() -> None:
    """Run `compare.py` without tiles of matrix units."""
    fits, compiled = Tile.fits, Compiler.compile
    programs: Counter[str] = Counter()
    with_instructions: Counter[str] = Counter()

    def fits_plainly(tile: Tile, target: Target) -> bool:
        return not tile.mma and fits(tile, target)

    def searched(compiler: Compiler, program: Program) -> bytes:
        code = compiled(compiler, program)
        programs[program.source.path] += 1
        with_instructions[program.source.path] += any(word in code for word in _INSTRUCTIONS)
        return code

    PipelinedSolver.outdone_on = ()
    Tile.fits = fits_plainly  # type: ignore[assignment, method-assign]
    Compiler.compile = searched  # type: ignore[assignment, method-assign]
    with tempfile.TemporaryDirectory() as own:
        os.environ |= {"CONVFIND_DISABLE_FIND_DB": "1", "CONVFIND_USER_DB_PATH": own}
        try:
            main()
        finally:
            for path, count in sorted(programs.items()):
                found = with_instructions[path]
                click.echo(f"{path}: {count} programs, {found} with matrix instructions", err=True)


if __name__ == "__main__":
    compare_plain_products()
