"""Tables of operators: the problem types of convfind-operators, and ONNX's operators by name."""

from __future__ import annotations

import re

from convfind_networks.from_onnx.operators import OPERATORS
from convfind_operators import problem_types, solvers


def kinds() -> str:
    """Return every problem type with the solvers for it and their element types."""
    lines = ["| kind | class | solvers | element types of the first operand |", "|---|---|---|---|"]
    for problem in problem_types():
        takers = [solver for solver in solvers() if solver.domain.problem == problem.kind]
        ids = ", ".join(f"`{solver.solver_id}`" for solver in takers)
        dtypes = ", ".join(dict.fromkeys(str(d) for solver in takers for d in solver.domain.dtypes))
        lines.append(f"| `{problem.kind}` | `{problem.__name__}` | {ids} | {dtypes} |")
    return "\n".join(lines)


def onnx() -> str:
    """Return the names of ONNX's operators that models may contain."""
    names = sorted({re.sub(r".*[.:]", "", str(name)) for name in OPERATORS}, key=str.lower)
    return f"{len(names)} operators of ONNX are read: " + ", ".join(f"`{n}`" for n in names) + "."
