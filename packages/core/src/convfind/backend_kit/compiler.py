"""`ProgramCompiler`: programs to sealed binaries, with the build logs of the last ones."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from convfind.cached import RecentlyUsed
from convfind.device.kernel_figures import KernelFigures
from convfind.device.target import Target
from convfind.errors import KernelBuildError
from convfind.kit.assembler_log import figures_in
from convfind.solver.kernel_spec import KernelLanguage, Program

_DIGEST_SIZE = 16
_MOST_LOGS = 256


class ProgramCompiler(ABC):
    """The compiler of one target. Every method may be called from several threads at once.

    A binary is sealed with a digest of code and compiler, because runtimes trust their binaries:
    some end the process over a truncated one.
    """

    #: Languages that it compiles: those of its backend.
    languages: ClassVar[tuple[KernelLanguage, ...]] = (KernelLanguage.SHARED,)
    #: First bytes of a binary; another word makes the binaries of today invalid.
    magic: ClassVar[bytes]

    def __init__(self, target: Target) -> None:
        self.target = target
        self._identity = target.compiler.encode()
        self._logs = RecentlyUsed[Program, str](_MOST_LOGS)

    @abstractmethod
    def build(self, program: Program) -> tuple[bytes, str]:
        """Return the runtime's code and the log of a program in one of the languages.

        Raises `KernelBuildError`.
        """

    def compile(self, program: Program) -> bytes:
        """Compile to a binary that `opened` accepts. Raises `KernelBuildError`."""
        if program.language not in self.languages:
            known = " and ".join(self.languages) or "no kernels"
            backend = self.target.backend
            log = f"error: the {backend} backend compiles {known}, not {program.language}"
            raise KernelBuildError(str(program.source), program.all_options, log)
        code, log = self.build(program)
        self.note_log(program, log)
        return self.sealed(code)

    def sealed(self, code: bytes) -> bytes:
        """Return code as a binary, behind the magic word and a digest."""
        return self.magic + self._digest(code) + code

    def opened(self, program: Program, binary: bytes) -> bytes:
        """Return the code in a binary. Raises `KernelBuildError` if the seal is broken."""
        head = len(self.magic) + _DIGEST_SIZE
        code = binary[head:]
        if binary[:head] != self.magic + self._digest(code):
            log = (
                "error: the binary is damaged or was made for another device or driver; "
                "compile it again"
            )
            raise KernelBuildError(str(program.source), program.all_options, log)
        return code

    def build_log(self, program: Program) -> str:
        """Return the compiler's words about the last build of a program; empty before that."""
        return self._logs.get(program) or ""

    def figures(self, program: Program, binary: bytes) -> Sequence[KernelFigures]:
        """Return what the last build's log says of each kernel."""
        return tuple(figures_in(self.build_log(program)).values())

    def note_log(self, program: Program, log: str) -> None:
        """Keep a build log; an empty one does not replace what an earlier build said."""
        if log.strip() or program not in self._logs:
            self._logs.put(program, log)

    def _digest(self, code: bytes) -> bytes:
        digest = hashlib.blake2b(self._identity, digest_size=_DIGEST_SIZE)
        digest.update(code)
        return digest.digest()
