"""Compiles programs to binaries and loads binaries."""

from __future__ import annotations

import pyopencl as cl

# pyopencl's public `Program` keeps a binary cache of its own beside convfind's and warns of every
# build log that is not empty; the class below it does neither.
from pyopencl._cl import _Program

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.device.target import Target
from convfind.errors import KernelBuildError
from convfind.solver.kernel_spec import Program
from convfind_backend_opencl.errors import status_name
from convfind_backend_opencl.languages import LANGUAGES
from convfind_backend_opencl.module import LoadedProgram
from convfind_backend_opencl.ptx import limit_registers, retarget
from convfind_backend_opencl.target import is_nvidia


class Compiler(ProgramCompiler):
    """The compiler of one device."""

    languages = LANGUAGES
    magic = b"convfind-opencl-1\0"

    def __init__(self, context: cl.Context, device: cl.Device, target: Target) -> None:
        super().__init__(target)
        self._context = context
        self._device = device
        self._is_nvidia = is_nvidia(device)
        # Registers and spills appear in the build log.
        self._verbose = ("-cl-nv-verbose",) if self._is_nvidia else ()

    def build(self, program: Program) -> tuple[bytes, str]:
        """Return the runtime's binary and log."""
        options = (*self._options(program), *self._verbose)
        try:
            native = _Program(self._context, program.source.text)
        except cl.Error as exc:
            raise KernelBuildError(str(program.source), options, status_name(exc)) from exc
        log = self._build(native, program, options)
        binaries = native.get_info(cl.program_info.BINARIES)
        assert isinstance(binaries, list)
        code = binaries[0]
        if self._is_nvidia:  # the binary is PTX
            code = limit_registers(retarget(code), program.options)
        return code, log

    def loaded(self, program: Program, code: bytes) -> LoadedProgram:
        """Make code ready. Raises `KernelBuildError`."""
        try:
            native = _Program(self._context, [self._device], [code])
        except cl.Error as exc:
            log = f"the runtime refuses the binary: {status_name(exc)}"
            raise KernelBuildError(str(program.source), program.all_options, log) from exc
        self.note_log(program, self._build(native, program, self._verbose))
        names = native.get_info(cl.program_info.KERNEL_NAMES)
        return LoadedProgram(native, tuple(str(names).split(";")))

    @staticmethod
    def _options(program: Program) -> tuple[str, ...]:
        # CL1.2 is what every runtime has; a program may ask for more. None of the fast-math
        # options: they assume that there is no NaN and no infinity, which a convolution passes on.
        # No -cl-mad-enable either: contraction to fma, the part that pays, is OpenCL C's default
        # and kernels spell it out; what the option adds is leave to round worse than that.
        standard = () if any("-cl-std=" in word for word in program.options) else ("-cl-std=CL1.2",)
        return (*standard, *program.all_options)

    def _build(self, native: _Program, program: Program, options: tuple[str, ...]) -> str:
        try:
            native._build(options=" ".join(options).encode(), devices=[self._device])
        except cl.Error as exc:
            log = self._log(native).strip() or status_name(exc)
            raise KernelBuildError(str(program.source), options, log) from exc
        return self._log(native)

    def _log(self, native: _Program) -> str:
        try:
            log = native.get_build_info(self._device, cl.program_build_info.LOG)
        except (cl.Error, UnicodeDecodeError) as exc:
            return f"<no build log: {exc}>"
        return str(log or "").replace("\0", "")
