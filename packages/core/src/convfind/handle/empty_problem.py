"""Problems with a batch of 0: found and run without a solver, a database or a launch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convfind.device.target import Target
from convfind.find.result import FindOrigin, FindResult
from convfind.find.solution import Solution, TimeOrigin
from convfind.handle.convolution import Convolution
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, DeviceBuffer, InvokeArgs
from convfind.runtime.tensors import empty_memory, tensor_view
from convfind.solver.recipe import Recipe
from convfind.types import Algorithm

#: Stands in solutions in place of a solver.
NO_SOLVER = "empty-batch"


def empty_result(problem: ConvProblem, target: Target, policy: Policy) -> FindResult:
    """Return the only solution: there is nothing to launch."""
    solution = Solution(
        solver=NO_SOLVER,
        algorithm=Algorithm.DIRECT,
        problem=problem.text,
        device=target.identity,
        time_ms=None,
        time_origin=TimeOrigin.NONE,
        workspace=0,
        constant_weights=policy.constant_weights,
    )
    return FindResult(
        problem.text, target.identity, policy.mode.name, FindOrigin.FALLBACK, (solution,)
    )


def empty_convolution(problem: ConvProblem, solution: Solution, device: Device) -> Convolution:
    """Make the only solution ready to run."""
    recipe = Recipe(NO_SOLVER, steps=())
    return Convolution(problem, solution, recipe, device, _EmptyInvoker(problem, device), 0)


@dataclass(frozen=True, slots=True)
class _EmptyInvoker:
    """Sums without products: the result is ``beta`` times what it was, on the host."""

    problem: ConvProblem
    device: Device

    def __call__(self, args: InvokeArgs) -> None:
        """Write the result."""
        problem, name = self.problem, self.problem.direction.writes
        if not problem.nbytes(name):
            return
        buffer: DeviceBuffer = getattr(args, problem.plain_name(name))
        memory = empty_memory(problem, name)
        self.device.read(buffer, memory)  # what lies between the elements stays
        view = tensor_view(problem, name, memory)
        view[...] = view.astype(np.float64) * problem.beta if problem.beta else 0
        self.device.write(buffer, memory)

    def timed(self, args: InvokeArgs) -> float:
        """Write the result; the device has no part in it."""
        self(args)
        return 0.0
