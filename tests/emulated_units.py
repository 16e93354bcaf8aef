"""NVIDIA's units on CPUs: kernels as C++ whose work-items take turns, see ``emulated_units.h``."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from convfind.device.target import Target
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, ScalarArg, Step, TensorMapArg

#: A compiler of C++17 with _Float16.
COMPILER = shutil.which("g++")
_HEADER = Path(__file__).with_name("emulated_units.h")
#: Functions of convfind_nvidia.h in plain C, which stay.
_KEPT = r"^CF_INLINED CF_UINT cf_tf32_(?:high|low|near)\b(?:.*?})$"
#: What kernels and headers have that is no C++, and what stands there instead.
_CHANGES = (
    (r"CF_LOCAL unsigned char memory\[.*?\] __attribute__.*?;", "unsigned char *memory = arena;"),
    (r"^CF_INLINED \w+ (?:exp2_of|across|copy_windows|copy_box|copy_run)\(.*?^}$", ""),
    (r"^CF_INLINED \w+ barrier_(?:start|expect|arrive|arrive_copied|wait)\(.*?^}$", ""),
    (r"^CF_INLINED void barriers_started.*?$", ""),
    (r"^#define (?:MEET_AT|PASS_AT|GIVE_REGISTERS|TAKE_REGISTERS)\b.*?$", ""),
    (r"^#define WGMMA_TURNED\b.*?[^\\]$", ""),
    (r"asm volatile\(.*?\);", ";"),
    (r"__grid_constant__", ""),
)
_C_TYPES: dict[str, Any] = {
    "int32": ctypes.c_int,
    "int64": ctypes.c_longlong,
    "float32": ctypes.c_float,
}


class EmulatedUnits:
    """What checks need of a device; programs are compiled into a directory."""

    def __init__(self, target: Target, directory: Path) -> None:
        self.target = target
        self._directory = directory

    def compile(self, program: Program) -> bytes:
        """Return a shared library's path."""
        assert COMPILER is not None
        path = self._directory / f"kernel{len(list(self._directory.iterdir()))}"
        path.mkdir()
        core = files("convfind").joinpath("kernel_include")
        kernels = files(program.source.package).joinpath(program.source.path)
        for folder in (core, files(program.source.package).joinpath("kernels")):
            for one in folder.iterdir():
                if one.name.endswith((".h", ".cl")):
                    (path / one.name).write_text(f"#pragma once\n{_changed(one.read_text())}")
        kept = re.findall(_KEPT, core.joinpath("convfind_nvidia.h").read_text(), re.M | re.S)
        (path / "convfind_nvidia.h").write_text("\n".join(["#pragma once", *kept, ""]))
        (path / "units.cpp").write_text(_HEADER.read_text() + _changed(kernels.read_text()))
        macros = [one for one in program.all_options if one.startswith("-D")]
        macros.append(f"-DIS_BFLOAT16={int('-DDTYPE=BFLOAT16' in macros)}")
        words = [COMPILER, "-x", "c++", "-std=c++17", "-w", "-Wno-psabi", f"-I{path}", *macros]
        text = subprocess.run(
            [*words, "-E", "-P", path / "units.cpp"], check=True, capture_output=True, text=True
        ).stdout
        for entry in re.findall(r"\bCF_KERNEL\s+void (\w+)\(", text):
            text += _LAUNCHED.format(entry=entry)
        (path / "whole.cpp").write_text(text)
        build = ["-O1", "-shared", "-fPIC", "-DCF_KERNEL=static"]
        library = path / "library"
        subprocess.run([*words, *build, path / "whole.cpp", "-o", library], check=True)
        return str(library).encode()

    def load(self, program: Program, binary: bytes) -> Any:
        """Return the library."""
        return ctypes.CDLL(binary.decode())

    def allocate(self, size: int) -> np.ndarray[Any, Any]:
        """Return memory."""
        return np.empty(size, np.uint8)

    def fill(self, buffer: np.ndarray[Any, Any], value: int) -> None:
        """Fill memory with a byte."""
        buffer[:] = value

    def write(self, buffer: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> None:
        """Fill memory."""
        buffer[:] = array

    def read(self, buffer: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> None:
        """Fill an array."""
        array[:] = buffer

    def seen(self, buffer: np.ndarray[Any, Any]) -> AbstractContextManager[np.ndarray[Any, Any]]:
        """Return memory as the host sees it."""
        return nullcontext(buffer)

    def synchronize(self) -> None:
        """Return: everything is done when it is asked for."""

    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, Any]) -> Any:
        """Return what runs launches."""

        def invoke(args: InvokeArgs) -> None:
            for step in steps:
                assert isinstance(step, Launch)
                values = [_value(one, args) for one in step.arguments]
                addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
                run = getattr(loaded[step.kernel.program], f"run_{step.kernel.entry}")
                groups, items = step.global_size[0] // step.local_size[0], step.local_size[0]
                ended = run(groups, items, addresses)
                assert ended == groups * items, f"an item of {ended} waits for ever"

        return invoke


_LAUNCHED = """
extern "C" int run_{entry}(int groups, int items, void **arguments) {{
  return launch({entry}, groups, items, arguments);
}}
"""


def _changed(text: str) -> str:
    for pattern, instead in _CHANGES:
        text = re.sub(pattern, instead, text, flags=re.M | re.S)
    return text


def _value(argument: Any, args: InvokeArgs) -> Any:
    """Return an argument as it lies in memory."""
    if isinstance(argument, ScalarArg):
        return _C_TYPES[argument.kind](argument.value)
    buffer: Any = getattr(args, argument.memory)
    address = buffer.ctypes.data + argument.offset
    if isinstance(argument, BufferArg):
        return ctypes.c_void_p(address)
    assert isinstance(argument, TensorMapArg)
    return _MapArgument(address, argument)


class _MapArgument(ctypes.Structure):
    """Sixteen words, the first of which tells where the emulated map lies: see `Map`."""

    _fields_ = (("words", ctypes.c_uint64 * 16),)

    def __init__(self, address: int, argument: TensorMapArg) -> None:
        windows = argument.windows
        ends = [(0, 0)] * 3 if windows is None else [windows.first, windows.counts, windows.steps]
        words = [
            *(address, argument.dtype.size, argument.rounds),
            *_filled(argument.sizes, 4),
            *_filled(argument.strides, 4),
            *_filled(argument.box, 3),
            *(number for end in ends for number in end),
        ]
        self.map = (ctypes.c_int64 * len(words))(*words)
        super().__init__()
        self.words[0] = ctypes.addressof(self.map)


def _filled(numbers: Sequence[int], count: int) -> list[int]:
    return [*numbers, *[0] * (count - len(numbers))]
