"""convfind finds the fastest correct way to run a convolution, remembers it, and runs it."""

from __future__ import annotations

from convfind.starting import begin_program as _begin_program

_end_of_imports = _begin_program()  # before the others, which take a while

# ruff: noqa: E402
from typing import TYPE_CHECKING

from convfind.device.target import DeviceKind, Target
from convfind.errors import (
    BackendUnavailableError,
    ConvfindError,
    DeviceError,
    DuplicateIdError,
    FindDbCorruptError,
    FindDbError,
    FindDbVersionError,
    KernelBuildError,
    LaunchError,
    NoSolverError,
    PluginError,
    ProblemError,
    SettingsError,
    SolutionError,
    VerificationError,
    WorkspaceError,
)
from convfind.find.result import FindOrigin, FindResult
from convfind.find.solution import Solution, TimeOrigin
from convfind.handle import Handle
from convfind.handle.convolution import Convolution
from convfind.handle.miopen_calls import AlgorithmPerformance, FindOptions
from convfind.handle.opening import DeviceList, devices, handle_for
from convfind.handle.opening import open_handle as open
from convfind.policy import CheckHit, Fallback, FindEnforce, FindMode, OnMiss, Order, Policy
from convfind.problem import Activation, ActivationKind, ConvProblem
from convfind.reasons import Reason
from convfind.runtime.tensors import DeviceTensor
from convfind.settings import Settings
from convfind.solver import Solver, TunableSolver
from convfind.solver.applicability import APPLICABLE, Applicable, Rejected
from convfind.solver.config import Config
from convfind.types import AccuracyClass, Algorithm, ConvMode, DataType, Direction, Layout

if TYPE_CHECKING:
    __version__: str

__all__ = [
    "APPLICABLE",
    "AccuracyClass",
    "Activation",
    "ActivationKind",
    "Algorithm",
    "AlgorithmPerformance",
    "Applicable",
    "BackendUnavailableError",
    "CheckHit",
    "Config",
    "ConvMode",
    "ConvProblem",
    "ConvfindError",
    "Convolution",
    "DataType",
    "DeviceError",
    "DeviceKind",
    "DeviceList",
    "DeviceTensor",
    "Direction",
    "DuplicateIdError",
    "Fallback",
    "FindDbCorruptError",
    "FindDbError",
    "FindDbVersionError",
    "FindEnforce",
    "FindMode",
    "FindOptions",
    "FindOrigin",
    "FindResult",
    "Handle",
    "KernelBuildError",
    "LaunchError",
    "Layout",
    "NoSolverError",
    "OnMiss",
    "Order",
    "PluginError",
    "Policy",
    "ProblemError",
    "Reason",
    "Rejected",
    "Settings",
    "SettingsError",
    "Solution",
    "SolutionError",
    "Solver",
    "Target",
    "TimeOrigin",
    "TunableSolver",
    "VerificationError",
    "WorkspaceError",
    "devices",
    "handle_for",
    "open",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("convfind")
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


_end_of_imports()
