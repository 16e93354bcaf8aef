"""Compiles programs to binaries and loads binaries."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs
import pyopencl as cl

# pyopencl's public `Program` keeps a binary cache of its own beside convfind's and warns of every
# build log that is not empty; the class below it does neither.
from pyopencl._cl import _Program

from convfind.cached import RecentlyUsed
from convfind.device.target import Target
from convfind.errors import KernelBuildError
from convfind.log import logger
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind_backend_opencl.errors import status_name
from convfind_backend_opencl.ptx import limit_registers, retarget
from convfind_backend_opencl.target import is_nvidia

_MAGIC = b"convfind-opencl-1\0"
_DIGEST_SIZE = 16
_MOST_LOGS = 256


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program that is ready to run."""

    native: _Program
    entries: tuple[str, ...]

    def kernel(self, entry: str) -> cl.Kernel:
        """Make a kernel. Raises `pyopencl.Error`.

        pyopencl keeps Python code that it generates for a kernel in the user's cache folder, and
        makes none where it cannot: with a read-only home folder, a full disk, a damaged file. Then
        this process does without.
        """
        if not _has_cache_folder():
            _do_without_cache("no folder for it can be made")
        try:
            return cl.Kernel(self.native, entry)
        except (OSError, sqlite3.Error) as exc:
            _do_without_cache(str(exc))
            return cl.Kernel(self.native, entry)


class Compiler:
    """The compiler of one device. Every method may be called from several threads at once."""

    def __init__(self, context: cl.Context, device: cl.Device, target: Target) -> None:
        self._context = context
        self._device = device
        self._compiler = target.compiler.encode()
        self._is_nvidia = is_nvidia(device)
        # Registers and spills appear in the build log.
        self._verbose = ("-cl-nv-verbose",) if self._is_nvidia else ()
        self._logs = RecentlyUsed[Program, str](_MOST_LOGS)

    def compile(self, program: Program) -> bytes:
        """Compile to a binary that `load` accepts on the same target."""
        if program.language is KernelLanguage.HIP:
            log = "the opencl backend compiles opencl-c and shared kernels, not hip"
            raise KernelBuildError(str(program.source), program.all_options, log)
        options = (*self._options(program), *self._verbose)
        try:
            native = _Program(self._context, program.source.text)
        except cl.Error as exc:
            raise KernelBuildError(str(program.source), options, status_name(exc)) from exc
        self._build(native, program, options)
        binaries = native.get_info(cl.program_info.BINARIES)
        assert isinstance(binaries, list)
        code = binaries[0]
        if self._is_nvidia:  # the binary is PTX
            code = limit_registers(retarget(code), program.options)
        return self._sealed(code)

    def load(self, program: Program, binary: bytes) -> LoadedProgram:
        """Make a binary ready."""
        code = self._opened(program, binary)
        try:
            native = _Program(self._context, [self._device], [code])
        except cl.Error as exc:
            log = f"the runtime refuses the binary: {status_name(exc)}"
            raise KernelBuildError(str(program.source), program.all_options, log) from exc
        self._build(native, program, self._verbose)
        names = native.get_info(cl.program_info.KERNEL_NAMES)
        return LoadedProgram(native, tuple(str(names).split(";")))

    def build_log(self, program: Program) -> str:
        """What the compiler said when it last built the program; empty before that."""
        return self._logs.get(program) or ""

    @staticmethod
    def _options(program: Program) -> tuple[str, ...]:
        # CL1.2 is what every runtime has; a program may ask for more. None of the fast-math
        # options: they assume that there is no NaN and no infinity, which a convolution passes on.
        # No -cl-mad-enable either: contraction to fma, the part that pays, is OpenCL C's default
        # and kernels spell it out; what the option adds is leave to round worse than that.
        standard = () if any("-cl-std=" in word for word in program.options) else ("-cl-std=CL1.2",)
        return (*standard, *program.all_options)

    def _build(self, native: _Program, program: Program, options: tuple[str, ...]) -> None:
        try:
            native._build(options=" ".join(options).encode(), devices=[self._device])
        except cl.Error as exc:
            log = self._log(native).strip() or status_name(exc)
            raise KernelBuildError(str(program.source), options, log) from exc
        log = self._log(native)
        if log.strip() or program not in self._logs:
            self._logs.put(program, log)

    def _log(self, native: _Program) -> str:
        try:
            log = native.get_build_info(self._device, cl.program_build_info.LOG)
        except (cl.Error, UnicodeDecodeError) as exc:
            return f"<no build log: {exc}>"
        return str(log or "").replace("\0", "")

    def _sealed(self, code: bytes) -> bytes:
        """Put the magic word and a digest before a binary.

        Runtimes check their binaries poorly: PoCL ends the process over a truncated one.
        """
        return _MAGIC + self._digest(code) + code

    def _opened(self, program: Program, binary: bytes) -> bytes:
        head = len(_MAGIC) + _DIGEST_SIZE
        code = binary[head:]
        if binary[:head] != _MAGIC + self._digest(code):
            log = "the binary is damaged or was made for another device or driver; compile it again"
            raise KernelBuildError(str(program.source), program.all_options, log)
        return code

    def _digest(self, code: bytes) -> bytes:
        digest = hashlib.blake2b(self._compiler, digest_size=_DIGEST_SIZE)
        digest.update(code)
        return digest.digest()


@cache
def _has_cache_folder() -> bool:
    """Say whether pyopencl's folder is there or can be made; where it fails to, it also prints."""
    folder = Path(platformdirs.user_cache_dir("pytools", "pytools"))
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return there.is_dir() and (there == folder or os.access(there, os.W_OK))


def _do_without_cache(why: str) -> None:
    if not cl._PYOPENCL_NO_CACHE:
        logger.warning("pyopencl's cache cannot be used, continuing without it: %s", why)
        cl._PYOPENCL_NO_CACHE = True
