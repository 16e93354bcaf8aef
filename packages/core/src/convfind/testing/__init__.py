"""Tools for authors of plugins: a mock backend, mock solvers, and the conformance kits."""

from __future__ import annotations

from convfind.testing.check_backend import assert_backend, check_backend
from convfind.testing.check_solver import assert_solver, check_solver
from convfind.testing.mock_backend import (
    MOCK_TARGET,
    MockBackend,
    MockBuffer,
    MockCounters,
    MockDevice,
    MockFaults,
    MockFunction,
)
from convfind.testing.report import BackendReport, Failure, SolverReport
from convfind.testing.shapes import edge_cases, fused, variants, weird_problems
from convfind.testing.solvers import MockSolver, mock_solvers

__all__ = [
    "MOCK_TARGET",
    "BackendReport",
    "Failure",
    "MockBackend",
    "MockBuffer",
    "MockCounters",
    "MockDevice",
    "MockFaults",
    "MockFunction",
    "MockSolver",
    "SolverReport",
    "assert_backend",
    "assert_solver",
    "check_backend",
    "check_solver",
    "edge_cases",
    "fused",
    "mock_solvers",
    "variants",
    "weird_problems",
]
