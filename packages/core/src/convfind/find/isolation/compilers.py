"""`Compilers`: programs compiled side by side, also where a runtime takes one after the other."""

from __future__ import annotations

import threading

from convfind.find.isolation.child import Child
from convfind.find.isolation.place import Place
from convfind.log import logger
from convfind.runtime.backend import Device
from convfind.solver import asking
from convfind.solver.kernel_spec import Program

#: Seconds after which waiting for the compiler costs more than the start of another process.
_PATIENCE = 1.0
#: So many programs that are still to come are worth the start of another process at once.
_WORTH_A_START = 3
#: Processes at most: each has the whole runtime in memory.
_MOST = 15


class Compilers:
    """Compiles in this process and, while that is busy, in children that end when they are idle.

    Programs that fail in a child are compiled here: whatever the reason is, this process says.
    """

    def __init__(self, device: Device, place: Place) -> None:
        self._device = device
        self._place = place
        self._here = threading.Lock()
        self._children: list[Child] = []
        self._idle: list[Child] = []
        self._expected = 0

    def expect(self, count: int) -> None:
        """Be told that so many programs are about to come."""
        self._expected = count

    def compile(self, program: Program) -> bytes:
        """Compile a program; several threads may do so at once. Raises `KernelBuildError`."""
        expected, self._expected = self._expected, self._expected - 1
        if self._here.acquire(blocking=False):
            return self._compiled_here(program)
        child, patience = self._idle_child(), 0.0 if expected >= _WORTH_A_START else _PATIENCE
        if child is None and self._here.acquire(timeout=patience):
            return self._compiled_here(program)
        if (child := child or self._new_child()) is not None:
            try:
                binary: bytes = child.call("compile", program, limit=None)
            except asking.FAILURES as error:
                logger.info("%s is compiled in this process: %s", program.source, error)
            else:
                return binary
            finally:
                self._idle.append(child)
        self._here.acquire()
        return self._compiled_here(program)

    def close(self) -> None:
        """End the children."""
        for child in self._children:
            child.close()

    def _compiled_here(self, program: Program) -> bytes:
        try:
            return self._device.compile(program)
        finally:
            self._here.release()

    def _idle_child(self) -> Child | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _new_child(self) -> Child | None:
        if len(self._children) >= _MOST:
            return None
        self._children.append(Child(self._place))
        return self._children[-1]
