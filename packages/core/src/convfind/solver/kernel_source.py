"""Kernel source files: text beside their solver, includes resolved here, hashed as a whole."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_SHARED = "convfind.kernel_include"


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel file: the package that ships it and its path inside that package."""

    package: str
    path: str

    def __str__(self) -> str:
        return f"{self.package}/{self.path}"

    @property
    def text(self) -> str:
        """The whole translation unit, with ``#include "..."`` lines replaced by the files.

        A name is looked up beside the including file, then in ``convfind/kernel_include``.
        Compilers need no include path, and an edited header changes the hash.
        """
        return _resolved(self.package, self.path)

    @property
    def digest(self) -> str:
        """Hash of `text`: 16 hexadecimal digits."""
        return _digest(self.text)


@lru_cache(maxsize=512)
def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@lru_cache(maxsize=512)
def _resolved(package: str, path: str) -> str:
    return _inline(package, path, [])


def _inline(package: str, path: str, seen: list[tuple[str, str]]) -> str:
    if (package, path) in seen:
        return ""  # included once is enough, as with a guard
    seen.append((package, path))
    from importlib.resources import files  # slow to import, and not needed without kernels

    folder = path.rpartition("/")[0]
    text = files(package).joinpath(path).read_text(encoding="utf-8")

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        beside = f"{folder}/{name}" if folder else name
        if files(package).joinpath(beside).is_file():
            return _inline(package, beside, seen)
        return _inline(_SHARED, name, seen)

    return _INCLUDE.sub(replacement, text)
