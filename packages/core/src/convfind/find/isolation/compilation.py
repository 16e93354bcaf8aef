"""A program compiled in the child, on behalf of a thread of the parent that waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from convfind.errors import LostBuildError
from convfind.find.isolation.child import Child
from convfind.find.isolation.limits import Limits
from convfind.find.isolation.process import EndedError, OverdueError
from convfind.solver.kernel_spec import Program


def compiled(
    program: Program, child: Child, limits: Limits, is_unwanted: Callable[[], bool]
) -> bytes:
    """Return the binary of a program; once more, alone, if the child ends meanwhile or is late.

    Raises:
        KernelBuildError: it does not build.
        LostBuildError: it has ended the child, twice, or the compiler does not end.
    """

    def compile_once(patience: int) -> bytes:
        if is_unwanted():
            msg = "the search is over"
            raise EndedError(msg)
        began = time.monotonic()
        binary: bytes = child.call("compile", program, limit=limits.compilation(patience))
        limits.note_compilation(time.monotonic() - began)
        return binary

    try:
        with child.gate.together():
            return compile_once(1)
    except EndedError as error:
        # Some compilers take programs one after the other: it may have waited for another one.
        if isinstance(error, OverdueError) and limits.is_by_budget:
            raise _lost(program, error, limits) from error
    with child.gate.alone():
        try:
            return compile_once(2)
        except EndedError as error:
            raise _lost(program, error, limits) from error


def _lost(program: Program, error: EndedError, limits: Limits) -> LostBuildError:
    why = limits.blamed(error)
    log = f"error: the compiler's process: {error}"
    return LostBuildError(str(program.source), program.all_options, log, why)
