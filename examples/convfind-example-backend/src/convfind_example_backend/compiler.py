"""`Compiler`: finds the function that computes what a kernel file does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.errors import KernelBuildError
from convfind.solver.kernel_spec import Program
from convfind_example_backend.kernels import FUNCTIONS


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """The function of a program's one kernel."""

    entry: str
    function: Callable[..., None]

    @classmethod
    def named(cls, program: Program, code: bytes) -> LoadedKernel:
        """Return the function that the code names. Raises `KernelBuildError`."""
        entry = code.decode(errors="replace")
        if entry not in FUNCTIONS:
            raise KernelBuildError(str(program.source), program.all_options, _unknown(program))
        return cls(entry, FUNCTIONS[entry])


class Compiler(ProgramCompiler):
    """Code is a function's name. The kit seals it and refuses what others made."""

    languages = ()
    magic = b"convfind-numpy-1\0"

    def compile(self, program: Program) -> bytes:
        """Return the name of a known kernel file's function, sealed, whatever its language."""
        return self.sealed(self.build(program)[0])

    def build(self, program: Program) -> tuple[bytes, str]:
        """Return the function's name. Raises `KernelBuildError` for an unknown file."""
        entry = program.source.path.rpartition("/")[2].removesuffix(".cl")
        if entry not in FUNCTIONS:
            raise KernelBuildError(str(program.source), program.all_options, _unknown(program))
        return entry.encode(), ""


def _unknown(program: Program) -> str:
    known = ", ".join(FUNCTIONS)
    return f"error: the numpy backend has no function for {program.source}; it has: {known}"
