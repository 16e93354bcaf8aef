"""NVIDIA's units on CPUs: kernels as C++ whose work-items are threads, see ``emulated_units.h``."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from convfind.device.target import Target
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, Step

#: A compiler of C++17 with _Float16.
COMPILER = shutil.which("g++")
_HEADER = Path(__file__).with_name("emulated_units.h")
#: Functions of the header in plain C, which stay.
_KEPT = r"^CF_INLINED CF_UINT cf_tf32_(?:high|low|near)\b(?:.*?})$"
#: What kernels have beside convfind_nvidia.h that is no C++, and what stands there instead.
_CHANGES = (
    (r"CF_LOCAL unsigned char memory\[.*?\] __attribute__.*?;", "unsigned char *memory = arena;"),
    (r"CF_LOCAL ulong (\w+)\[.*?\];", r"ulong *\1 = (ulong *)(arena + 255 * 1024);"),
    (r"^CF_INLINED \w+ (?:expect|arrive|await|announce|exp2_of|across)\(.*?^}$", ""),
    (r"^#define (?:MEET|PASS)\b.*?$", ""),
    (r"^#define WGMMA_TURNED\b.*?[^\\]$", ""),
    (r"asm volatile\(.*?\);", ";"),
    (r"^#include .*?$", ""),
)
#: The names among the parameters of a line.
_NAMES = re.compile(r"[^,]*?(\w+)(?=,|$)")
_C_TYPES: dict[str, Any] = {
    "int32": ctypes.c_int,
    "int64": ctypes.c_longlong,
    "float32": ctypes.c_float,
}


class UnitsOnThreads:
    """What checks need of a device; programs are compiled into a directory."""

    def __init__(self, target: Target, directory: Path) -> None:
        self.target = target
        self._directory = directory

    def compile(self, program: Program) -> bytes:
        """Return a shared library's path."""
        assert COMPILER is not None
        kernels = files(program.source.package)
        text = kernels.joinpath(program.source.path).read_text()
        for name in re.findall(r'^#include "(\w+\.h)"$', text, re.M):
            own = kernels.joinpath(f"kernels/{name}")
            text = (own.read_text() if own.is_file() else "") + text
        for pattern, instead in _CHANGES:
            text = re.sub(pattern, instead, text, flags=re.M | re.S)
        ptx = files("convfind").joinpath("kernel_include/convfind_nvidia.h").read_text()
        kept = "\n".join(re.findall(_KEPT, ptx, re.M | re.S))
        text = f"{_HEADER.read_text()}{kept}\n{text}"
        path = self._directory / f"kernel{len(list(self._directory.iterdir()))}"
        (entry,) = re.findall(r"^CF_KERNEL .*? void (\w+)\(", text, re.M)
        path.with_suffix(".cpp").write_text(f"{text}{_called(entry, text)}")
        macros = [one for one in program.all_options if one.startswith("-D")]
        macros.append(f"-DIS_BFLOAT16={int('-DDTYPE=BFLOAT16' in macros)}")
        words = [COMPILER, "-std=c++17", "-O1", "-w", "-pthread", "-shared", "-fPIC", *macros]
        subprocess.run([*words, path.with_suffix(".cpp"), "-o", path], check=True)
        return str(path).encode()

    def load(self, program: Program, binary: bytes) -> Any:
        """Return the library's function."""
        return ctypes.CDLL(binary.decode()).run

    def allocate(self, size: int) -> np.ndarray[Any, Any]:
        """Return memory."""
        return np.empty(size, np.uint8)

    def write(self, buffer: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> None:
        """Fill memory."""
        buffer[:] = array

    def read(self, buffer: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> None:
        """Fill an array."""
        array[:] = buffer

    def synchronize(self) -> None:
        """Return: everything is done when it is asked for."""

    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, Any]) -> Any:
        """Return what runs launches."""

        def invoke(args: InvokeArgs) -> None:
            for step in steps:
                assert isinstance(step, Launch)
                values = []
                for one in step.arguments:
                    if isinstance(one, BufferArg):
                        buffer: Any = getattr(args, one.memory)
                        values.append(ctypes.c_void_p(buffer.ctypes.data + one.offset))
                    else:
                        values.append(_C_TYPES[one.kind](one.value))  # type: ignore[union-attr]
                groups = step.global_size[0] // step.local_size[0]
                loaded[step.kernel.program](groups, step.local_size[0], *values)

        return invoke


def _called(entry: str, text: str) -> str:
    """Return a function that launches a kernel, with its parameters behind groups and items."""
    (parameters,) = re.findall(rf"void {entry}\((.*?)\) {{", text, re.S)
    lines = (
        line if line[:1] == "#" else _NAMES.sub(r"\1", line) for line in parameters.splitlines()
    )
    names = "\n".join(lines)
    return f"""
extern "C" void run(int groups, int items, {parameters}) {{
  launch({entry}, groups, items, {names});
}}
"""
