"""Properties of a problem that MIOpen's texts cannot express."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.errors import ProblemError
from convfind.problem.fields import unusual

if TYPE_CHECKING:
    from convfind.problem.conv_problem import ConvProblem


def refuse_unspeakable(problem: ConvProblem, text_form: str) -> None:
    """Raise if a problem has a property that MIOpen's texts cannot express."""
    for field, value in unusual(problem):
        if not field.is_miopens:
            raise ProblemError(field.name, value, f"{field.usual_in(problem)} in a {text_form}")
    if problem.spatial_rank == 1:
        raise ProblemError("x", problem.x_shape, f"2 or 3 spatial dimensions in a {text_form}")
