"""Tables of operators: the problem types of convfind-operators, and ONNX's operators by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from convfind_networks.from_onnx.operators import OPERATORS
from convfind_operators import problem_types, solvers


def kinds() -> str:
    """Return every problem type with the solvers for it and their element types."""
    every = _types(solvers())
    lines = ["| kind | class | solvers | element types of the first operand |", "|---|---|---|---|"]
    for problem in problem_types():
        takers = [solver for solver in solvers() if solver.domain.problem == problem.kind]
        ids = ", ".join(f"`{solver.solver_id}`" for solver in takers)
        dtypes = "all" if _types(takers) == every else ", ".join(_types(takers))
        lines.append(f"| `{problem.kind}` | `{problem.__name__}` | {ids} | {dtypes} |")
    return "\n".join([*lines, "", f"All element types are {', '.join(every)}."])


def _types(solvers: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(str(d) for solver in solvers for d in solver.domain.dtypes))


def onnx() -> str:
    """Return the names of ONNX's operators that models may contain."""
    names = sorted({re.sub(r".*[.:]", "", str(name)) for name in OPERATORS}, key=str.lower)
    return f"{len(names)} operators of ONNX are read: " + ", ".join(f"`{n}`" for n in names) + "."
