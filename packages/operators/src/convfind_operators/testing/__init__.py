"""Tools for authors of operators: the check of a solver's results."""

from __future__ import annotations

from convfind_operators.testing.check_operator import assert_operator, check_operator

__all__ = ["assert_operator", "check_operator"]
