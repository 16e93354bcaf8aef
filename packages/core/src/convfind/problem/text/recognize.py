"""Recognises the text forms of a problem by how they begin."""

from __future__ import annotations

import re

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.text.driver_line import is_driver_line, parse_driver_line
from convfind.problem.text.miopen_key import parse_miopen_key
from convfind.problem.text.network_config import parse_network_config
from convfind.problem.text.sizes import checked_text

_NETWORK_CONFIG = re.compile(r"(fwd|bwd-data|bwd-weights)-")
_MIOPEN_KEY = re.compile(r"[0-9]+-")
_KEYS = (
    "a network config such as fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32, "
    "a MIOpen key such as 64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F"
)


def parse_key(text: str) -> ConvProblem:
    """Read a network config or a MIOpen find-db key."""
    text = checked_text("key", text).strip()
    if _NETWORK_CONFIG.match(text):
        return parse_network_config(text)
    if _MIOPEN_KEY.match(text):
        return parse_miopen_key(text)
    raise ProblemError("key", text, _KEYS)


def parse_problem(text: str) -> tuple[ConvProblem, ...]:
    """Read any text form; several problems if a driver line requests several directions."""
    checked_text("problem", text)
    if is_driver_line(text):
        return parse_driver_line(text)
    if _NETWORK_CONFIG.match(text.strip()) or _MIOPEN_KEY.match(text.strip()):
        return (parse_key(text),)
    raise ProblemError(
        "problem", text, f"{_KEYS}, or a MIOpenDriver line such as 'conv -n 16 -c 64 -k 64 -F 1'"
    )
