"""Compiles programs to code objects with hiprtc, for a device that may be elsewhere."""

from __future__ import annotations

import hashlib

from convfind.cached import RecentlyUsed
from convfind.device.target import Target
from convfind.errors import KernelBuildError
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind_backend_hip.compile_pool import CompilePool, CompilerDiedError, shared_pool

_MAGIC = b"convfind-hip-3\0"  # another number for other options
#: Loops that ask for it are unrolled however long they become: what is left of one indexes arrays
#: by its variable, which then are in scratch memory.
_UNROLL = ("-mllvm", "-pragma-unroll-threshold=1000000")
_DIGEST_SIZE = 16
_MOST_LOGS = 256


class Compiler:
    """The compiler for one target. Every method may be called from several threads at once."""

    def __init__(self, target: Target, pool: CompilePool = shared_pool) -> None:
        self._arch = target.arch
        self._identity = target.compiler.encode()
        self._pool = pool
        self._logs = RecentlyUsed[Program, str](_MOST_LOGS)

    def compile(self, program: Program) -> bytes:
        """Compile to a binary that `opened` accepts. Raises `KernelBuildError`."""
        options = self._options(program)
        name = str(program.source)
        if program.language is KernelLanguage.OPENCL_C:
            log = "error: the hip backend compiles hip and shared kernels, not opencl-c"
            raise KernelBuildError(name, options, log)
        try:
            code, log = self._pool.compile(program.source.text, name, options)
        except CompilerDiedError as exc:
            log = f"error: compiling for {self._arch}, {exc}"
            raise KernelBuildError(name, options, log) from exc
        if not code:
            raise KernelBuildError(name, options, log)
        self._logs.put(program, log)
        return _MAGIC + self._digest(code) + code

    def opened(self, program: Program, binary: bytes) -> bytes:
        """Return the code object in a binary. Raises `KernelBuildError` for a strange one."""
        head = len(_MAGIC) + _DIGEST_SIZE
        code = binary[head:]
        if binary[:head] != _MAGIC + self._digest(code):
            log = "the binary is damaged or was made for another device or driver; compile it again"
            raise KernelBuildError(str(program.source), program.all_options, log)
        return code

    def build_log(self, program: Program) -> str:
        """What the compiler said when it last built the program; empty before that."""
        return self._logs.get(program) or ""

    def _options(self, program: Program) -> tuple[str, ...]:
        # None of the fast-math options: they assume that there is no NaN and no infinity, which a
        # convolution passes on. Contraction to fma is HIP's default.
        return (f"--offload-arch={self._arch}", "-O3", "-std=c++17", *_UNROLL, *program.all_options)

    def _digest(self, code: bytes) -> bytes:
        digest = hashlib.blake2b(self._identity, digest_size=_DIGEST_SIZE)
        digest.update(code)
        return digest.digest()
