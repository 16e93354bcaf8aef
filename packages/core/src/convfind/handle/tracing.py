"""`TracedInvoker`: prints a line for each convolution that runs, for CONVFIND_VERBOSE."""

from __future__ import annotations

import sys

from convfind.find.solution import Solution
from convfind.runtime.backend import InvokeArgs, Invoker


class TracedInvoker:
    """Waits for each run, and prints solver, problem and device time to standard error."""

    def __init__(self, invoker: Invoker, solution: Solution) -> None:
        self._invoker = invoker
        self._line = f"convfind: {solution.solver} {solution.problem}"

    def __call__(self, args: InvokeArgs) -> None:
        """Run the steps after everything enqueued before, and print the line."""
        print(f"{self._line} {self._invoker.timed(args):.4g} ms", file=sys.stderr)

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps, wait, and return device time in ms; prints nothing."""
        return self._invoker.timed(args)
