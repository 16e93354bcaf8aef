"""A program compiled in the child, on behalf of a thread of the parent that waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from convfind.errors import LostBuildError
from convfind.find.isolation.child import Child, OverdueError
from convfind.find.isolation.limits import Limits
from convfind.find.isolation.process import EndedError
from convfind.reasons import Reason
from convfind.solver.kernel_spec import Program


def compiled(
    program: Program, child: Child, limits: Limits, is_unwanted: Callable[[], bool]
) -> bytes:
    """Return the binary of a program; once more, alone, if the child ends meanwhile.

    Raises:
        KernelBuildError: it does not build.
        LostBuildError: it has ended the child, twice, or the compiler does not end.
    """

    def compile_once() -> bytes:
        if is_unwanted():
            msg = "the search is over"
            raise EndedError(msg)
        began = time.monotonic()
        binary: bytes = child.call("compile", program, limit=limits.compilation)
        limits.note_compilation(time.monotonic() - began)
        return binary

    try:
        with child.gate.together():
            return compile_once()
    except OverdueError as error:
        raise _lost(program, Reason.HUNG, error) from error
    except EndedError:
        pass
    with child.gate.alone():
        try:
            return compile_once()
        except EndedError as error:
            why = Reason.HUNG if isinstance(error, OverdueError) else Reason.CRASHED
            raise _lost(program, why, error) from error


def _lost(program: Program, why: Reason, error: EndedError) -> LostBuildError:
    log = f"error: the compiler's process: {error}"
    return LostBuildError(str(program.source), program.all_options, log, why)
