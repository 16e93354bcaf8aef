"""Recognises the texts of a problem by how they begin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from convfind.errors import ProblemError
from convfind.problem.syntax.driver_line import is_driver_line, read_driver_line
from convfind.problem.syntax.miopen_key import read_miopen_key
from convfind.problem.syntax.network_config import read_network_config
from convfind.problem.syntax.sizes import checked_text

if TYPE_CHECKING:
    from convfind.problem.conv_problem import ConvProblem

_NETWORK_CONFIG = re.compile(r"(fwd|bwd-data|bwd-weights)-")
_MIOPEN_KEY = re.compile(r"[0-9]+-")
_KEYS = (
    "a network config such as fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32, "
    "a MIOpen key such as 64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F"
)


def read_key(text: str, problem_type: type[ConvProblem]) -> ConvProblem:
    """Read a network config or a MIOpen find-db key."""
    text = checked_text("key", text).strip()
    if _NETWORK_CONFIG.match(text):
        return read_network_config(text, problem_type)
    if _MIOPEN_KEY.match(text):
        return read_miopen_key(text, problem_type)
    raise ProblemError("key", text, _KEYS)


def read_problem(text: str, problem_type: type[ConvProblem]) -> tuple[ConvProblem, ...]:
    """Read any text form; several problems if a driver line requests several directions."""
    checked_text("problem", text)
    if is_driver_line(text):
        return read_driver_line(text, problem_type)
    if _NETWORK_CONFIG.match(text.strip()) or _MIOPEN_KEY.match(text.strip()):
        return (read_key(text, problem_type),)
    raise ProblemError(
        "problem", text, f"{_KEYS}, or a MIOpenDriver line such as 'conv -n 16 -c 64 -k 64 -F 1'"
    )
