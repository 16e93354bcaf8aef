"""Compiles programs to code objects with hiprtc, for a device that may be elsewhere."""

from __future__ import annotations

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.device.kernel_figures import KernelFigures
from convfind.device.target import Target
from convfind.errors import KernelBuildError
from convfind.solver.kernel_spec import Program
from convfind_backend_hip.code_object import kernels_of
from convfind_backend_hip.compile_pool import CompilePool, CompilerDiedError, shared_pool
from convfind_backend_hip.languages import LANGUAGES

#: Loops that ask for it are unrolled however long they become: what is left of one indexes arrays
#: by its variable, which then are in scratch memory.
_UNROLL = ("-mllvm", "-pragma-unroll-threshold=1000000")


class Compiler(ProgramCompiler):
    """The compiler for one target, in child processes."""

    languages = LANGUAGES
    magic = b"convfind-hip-3\0"  # another number for other options

    def __init__(self, target: Target, pool: CompilePool = shared_pool) -> None:
        super().__init__(target)
        self._arch = target.arch
        self._pool = pool

    def build(self, program: Program) -> tuple[bytes, str]:
        """Return a code object and the compiler's log."""
        options, name = self._options(program), str(program.source)
        try:
            code, log = self._pool.compile(program.source.text, name, options)
        except CompilerDiedError as exc:
            log = f"error: compiling for {self._arch}, {exc}"
            raise KernelBuildError(name, options, log) from exc
        if not code:
            raise KernelBuildError(name, options, log)
        return code, log

    def figures(self, program: Program, binary: bytes) -> tuple[KernelFigures, ...]:
        """Return what the code object says of each kernel."""
        return tuple(
            KernelFigures(facts.name, facts.vector_registers, facts.scratch, facts.spilled)
            for facts in kernels_of(self.opened(program, binary))
        )

    def _options(self, program: Program) -> tuple[str, ...]:
        # None of the fast-math options: they assume that there is no NaN and no infinity, which a
        # convolution passes on. Contraction to fma is HIP's default.
        return (f"--offload-arch={self._arch}", "-O3", "-std=c++17", *_UNROLL, *program.all_options)
