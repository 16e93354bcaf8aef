"""Programs that tests have compiled before, by their content: compiling takes them longest."""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import tempfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.solver.kernel_spec import Program

#: Settings by which a compiler is another one, or fails.
_COMPILERS = ("ROCM_PATH", "STANDIN_")


def use(folder: Path) -> None:
    """Let compilers take from a folder what they have compiled before, and keep there the rest.

    Programs that do not compile are compiled each time.
    """
    compile_anew = ProgramCompiler.compile

    def compile_once(compiler: ProgramCompiler, program: Program) -> bytes:
        if not os.environ.get("TESTS_COMPILED_DIR"):  # a test of compiling says so
            return compile_anew(compiler, program)
        path = folder / _key(compiler, program)
        try:
            kept = zlib.decompress(path.read_bytes())
        except OSError:
            binary = compile_anew(compiler, program)
            log = compiler.build_log(program).encode().replace(b"\0", b"")
            write(path, zlib.compress(log + b"\0" + binary, 1))
            return binary
        log, _, binary = kept.partition(b"\0")
        compiler.note_log(program, log.decode())
        with suppress(FileNotFoundError):
            os.utime(path)
        return binary

    ProgramCompiler.compile = compile_once  # type: ignore[method-assign, assignment]


def write(path: Path, content: bytes) -> None:
    """Write a file that others may be writing, too; it is there whole or not at all."""
    number, unfinished = tempfile.mkstemp(dir=path.parent)
    with open(number, "wb") as file:
        file.write(content)
    os.replace(unfinished, path)


def _key(compiler: ProgramCompiler, program: Program) -> str:
    around = [item for item in sorted(os.environ.items()) if item[0].startswith(_COMPILERS)]
    words = (program.key(compiler.target.compiler), compiler.target.identity, around)
    text = repr((*words, _processor())).encode() + _code_of(type(compiler))
    return hashlib.blake2b(text, digest_size=16).hexdigest()


@cache
def _processor() -> str:
    """What this machine can execute, for which the stand-in ROCm compiles."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line for line in lines if line.startswith("flags")), platform.machine())
    return platform.machine()


@cache
def _code_of(kind: type[ProgramCompiler]) -> bytes:
    """The module of a compiler, which has the options for all programs."""
    return Path(inspect.getfile(kind)).read_bytes()
