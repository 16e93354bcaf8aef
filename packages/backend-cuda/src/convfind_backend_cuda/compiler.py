"""Compiles programs to CUBIN with NVRTC, for a device that may be elsewhere."""

from __future__ import annotations

from typing import Any

from cuda.bindings import nvrtc

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.device.target import Target
from convfind.errors import KernelBuildError
from convfind.kit.register_limit import OPTION
from convfind.solver.kernel_spec import Program
from convfind_backend_cuda.architectures import compiled_for
from convfind_backend_cuda.languages import LANGUAGES


class Compiler(ProgramCompiler):
    """NVRTC for one target. It works without the driver, and without a device."""

    languages = LANGUAGES
    magic = b"convfind-cuda-1\0"  # another number for other options

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._arch = target.arch

    def build(self, program: Program) -> tuple[bytes, str]:
        """Return a CUBIN, and a log that holds registers and spills of each kernel."""
        options, name = self._options(program), str(program.source)

        def done(result: tuple[Any, ...], call: str) -> Any:
            if result[0]:
                log = f"error: {call} failed with {result[0].name}; reinstall NVRTC"
                raise KernelBuildError(name, options, log)
            return result[1] if len(result) > 1 else None

        text = program.source.text.encode()
        created = nvrtc.nvrtcCreateProgram(text, name.encode(), 0, None, None)
        native = done(created, "nvrtcCreateProgram")
        try:
            words = [option.encode() for option in options]
            (status,) = nvrtc.nvrtcCompileProgram(native, len(words), words)
            log = bytearray(done(nvrtc.nvrtcGetProgramLogSize(native), "nvrtcGetProgramLogSize"))
            done(nvrtc.nvrtcGetProgramLog(native, log), "nvrtcGetProgramLog")
            words_of_compiler = log.rstrip(b"\0").decode(errors="replace")
            if status:
                raise KernelBuildError(name, options, words_of_compiler or f"error: {status.name}")
            code = bytearray(done(nvrtc.nvrtcGetCUBINSize(native), "nvrtcGetCUBINSize"))
            done(nvrtc.nvrtcGetCUBIN(native, code), "nvrtcGetCUBIN")
        finally:
            nvrtc.nvrtcDestroyProgram(native)
        return bytes(code), words_of_compiler

    def _options(self, program: Program) -> tuple[str, ...]:
        # None of the fast-math options: they assume that there is no NaN and no infinity, which a
        # convolution passes on. Contraction to fma is CUDA's default.
        arch = f"--gpu-architecture={compiled_for(self._arch)}"
        words = (word for option in program.all_options for word in _spelled(option))
        return (
            arch,
            "--std=c++17",
            "-default-device",
            "--ptxas-options=-v",
            "--diag-suppress=177",
            *words,
        )


def _spelled(option: str) -> tuple[str, ...]:
    """Spell the option for registers, which is OpenCL's, as NVRTC and convfind_kernel.h do."""
    if not option.startswith(OPTION):
        return (option,)
    most = option.removeprefix(OPTION)
    return f"--maxrregcount={most}", f"-DCF_MOST_REGISTERS={most}"
