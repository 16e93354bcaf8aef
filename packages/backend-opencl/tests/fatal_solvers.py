"""Solvers that would end a find together with its process, and one with the same kernel that works.

A module of its own, because another process imports it, too.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from convfind.device.target import Target
from convfind.plugins import hookimpl
from convfind.problem import ConvProblem
from convfind.runtime.session import Session
from convfind.solver import Solver
from convfind.solver.applicability import APPLICABLE, Applicability
from convfind.solver.config import Config
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, i32
from convfind.types import Algorithm

PROBLEM = ConvProblem.forward(x=(1, 8, 12, 12), w=(16, 8, 1, 1))


class Pointwise(Solver):
    """The kernel of a deed: none, a wild address, an endless loop, an endless macro, far writes."""

    algorithm = Algorithm.DIRECT
    is_dynamic = True
    backends = ("opencl",)
    deed = 0
    items = 1
    solver_id = "fatal-not"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take everything; it is asked about `PROBLEM` only."""
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """More than everybody."""
        return 9.0 + self.deed

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """A work-item does all."""
        source = KernelSource("opencl_test_kernels", "fatal.cl")
        program = Program(source, KernelLanguage.OPENCL_C, make_defines(DEED=self.deed))
        memory = (BufferArg(Memory.X), BufferArg(Memory.W), BufferArg(Memory.Y))
        arguments = (*memory, i32(8), i32(16), i32(144))
        launch = Launch(KernelSpec(program, "fatal"), arguments, (self.items,), (1,))
        return Recipe(self.solver_id, (launch,))


class WildAddress(Pointwise):
    """Writes where no memory is."""

    deed = 1
    solver_id = "fatal-address"


class EndlessLoop(Pointwise):
    """Never ends."""

    deed = 2
    solver_id = "fatal-loop"


class EndlessMacro(Pointwise):
    """Its compiler never ends."""

    deed = 3
    solver_id = "fatal-macro"


class FarWrites(Pointwise):
    """Computes what is right, and writes a terabyte behind it."""

    deed = 4
    solver_id = "fatal-far"


class EndlessGrid(Pointwise):
    """Has more work-items than a device can run."""

    items = 2**62
    solver_id = "fatal-grid"


class Aborts(Pointwise):
    """Ends the process that asks for its error."""

    solver_id = "fatal-python"

    def error_bound(self, problem: ConvProblem) -> float:
        """Never return."""
        os.abort()


class Slow(Pointwise):
    """Is right, and takes its time to be checked."""

    solver_id = "fatal-slow"

    def error_bound(self, problem: ConvProblem) -> float:
        """Take longer than a budget that is spent leaves."""
        time.sleep(1.0)
        return super().error_bound(problem)


def read_input(session: Session) -> str:
    """Read what another process may read, too."""
    return sys.stdin.read()


class Plugin:
    """Some of them, by their ids."""

    def __init__(self, *solvers: Solver) -> None:
        self._solvers = solvers

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend(self._solvers)
