"""`KernelSpec`: a kernel as a solver describes it, before compilation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from convfind.solver.defines import Defines, options_of
from convfind.solver.kernel_source import KernelSource


class KernelLanguage(StrEnum):
    """The language of a kernel file."""

    SHARED = "shared"  # in the words of kernel_include: compiles as OpenCL C, HIP C++ and CUDA C++
    OPENCL_C = "opencl-c"
    HIP = "hip"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True)
class Program:
    """A translation unit with its macros: the unit of compilation, caching and loading."""

    source: KernelSource
    language: KernelLanguage = KernelLanguage.SHARED
    defines: Defines = ()
    options: tuple[str, ...] = ()  # further compiler options, in the language's own spelling

    @property
    def all_options(self) -> tuple[str, ...]:
        """All compiler options: macros first, then the others."""
        return (*options_of(self.defines), *self.options)

    def key(self, compiler: str) -> str:
        """Return the cache key of the binary: source hash, options and compiler identity."""
        text = "\0".join((self.source.digest, self.language, compiler, *self.all_options))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """An entry point of a program."""

    program: Program
    entry: str
