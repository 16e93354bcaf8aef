"""Convolutions from their texts."""

from __future__ import annotations

from convfind.problem.conv_problem import ConvProblem
from convfind.problem.syntax.driver_line import read_driver_line
from convfind.problem.syntax.miopen_key import read_miopen_key
from convfind.problem.syntax.network_config import read_network_config
from convfind.problem.syntax.recognize import read_key, read_problem


def parse_problem(text: str) -> tuple[ConvProblem, ...]:
    """Read any text form; several problems if a driver line requests several directions."""
    return read_problem(text, ConvProblem)


def parse_key(text: str) -> ConvProblem:
    """Read a network config or a MIOpen find-db key."""
    return read_key(text, ConvProblem)


def parse_network_config(text: str) -> ConvProblem:
    """Read a network config, with an activation's numbers; only the canonical text is accepted."""
    return read_network_config(text, ConvProblem)


def parse_miopen_key(text: str) -> ConvProblem:
    """Read a find-db key of MIOpen's, and nothing that convfind does not have."""
    return read_miopen_key(text, ConvProblem)


def parse_driver_line(line: str) -> tuple[ConvProblem, ...]:
    """Read a MIOpenDriver command line; return one problem for each direction that it requests."""
    return read_driver_line(line, ConvProblem)
