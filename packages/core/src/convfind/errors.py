"""Every error that convfind raises.

ConvfindError
 +-- ProblemError              an impossible or malformed problem, tensor or problem text
 +-- NoSolverError             no solver accepts the problem; carries every refusal
 +-- KernelBuildError          a kernel does not compile; carries log, options and source name
 |    +-- LostBuildError       its compiler ended its process, or did not end in time
 +-- LaunchError               the device refused or failed a launch
 +-- LostError                 a candidate that ended its process, or did not end in time
 +-- WorkspaceError            a workspace that is too small or missing
 +-- DeviceError               unknown device, or a device that fails
 |    +-- BackendUnavailableError   the runtime is not there; says what to install
 +-- SolutionError             a solution that is unknown, or made for another device or problem
 +-- VerificationError         a result that is wrong
 +-- FindDbError               the database; never raised out of a find
 |    +-- FindDbCorruptError
 |    +-- FindDbVersionError
 +-- ModelError                a heuristic model that cannot be used; never raised out of a find
 +-- PluginError               a plugin that breaks its contract
 |    +-- DuplicateIdError
 |    +-- SolverError
 +-- SettingsError             an environment variable or option with an illegal value
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from convfind.arguments import shortened, shown
from convfind.reasons import Reason

if TYPE_CHECKING:
    from convfind.solver.applicability import Rejected


#: Refusals that a message tells of; callers get all.
_MOST_TOLD = 8
#: Characters of a message about what somebody else has written.
_LONGEST_MESSAGE = 1000


class ConvfindError(Exception):
    """Root of all errors of convfind."""


class ProblemError(ConvfindError, ValueError):
    """A problem, tensor or problem text that cannot be; names the field and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {shown(value)} is not possible; allowed: {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type[ProblemError], tuple[str, object, str]]:
        return type(self), (self.field, self.value, self.allowed)


class NoSolverError(ConvfindError):
    """No solver takes the problem on this device.

    ``rejected`` has every refusal; the message tells of a few that are about the problem.
    """

    def __init__(self, problem: str, device: str, rejected: Mapping[str, Rejected]) -> None:
        others = (Reason.DENIED, Reason.BACKEND)
        telling = {s: why for s, why in rejected.items() if why.reason not in others} or rejected
        reasons = [f"{solver}: {why}" for solver, why in telling.items()][:_MOST_TOLD]
        if len(rejected) > len(reasons):
            reasons.append(f"{len(rejected) - len(reasons)} more; `convfind explain` says why")
        text = "; ".join(reasons) or "no solver package is installed"
        super().__init__(f"no solver takes {problem} on {device}: {text}")
        self.problem = problem
        self.device = device
        self.rejected = dict(rejected)


class KernelBuildError(ConvfindError):
    """A kernel that does not compile."""

    def __init__(self, source: str, options: tuple[str, ...], log: str) -> None:
        first = next((line.strip() for line in log.splitlines() if "error" in line.lower()), "")
        super().__init__(
            f"kernel {source} does not build with {' '.join(options)}: {first or log[:200]}"
        )
        self.source = source
        self.options = options
        self.log = log

    def __reduce__(self) -> tuple[type[KernelBuildError], tuple[str, tuple[str, ...], str]]:
        return type(self), (self.source, self.options, self.log)


class LaunchError(ConvfindError):
    """The device refused or failed a launch."""


class LostError(ConvfindError):
    """A candidate that ended its process, or that did not end in time; ``reason`` says which."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.text}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[LostError], tuple[Reason, str]]:
        return type(self), (self.reason, self.detail)


class LostBuildError(KernelBuildError):
    """A kernel whose compiler ended its process, or did not end in time; see ``reason``."""

    def __init__(self, source: str, options: tuple[str, ...], log: str, reason: Reason) -> None:
        super().__init__(source, options, log)
        self.reason = reason
        self.detail = f"compiling {source}: {log.removeprefix('error: ')}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.options, self.log, self.reason)


class WorkspaceError(ConvfindError):
    """A workspace that is too small or missing."""


class DeviceError(ConvfindError):
    """An unknown device, or a device that fails."""


class BackendUnavailableError(DeviceError):
    """The runtime under a backend is not there; the message says what to install."""


class SolutionError(ConvfindError):
    """A solution that is unknown, or that was made for another device or problem.

    Its message is one line of a bounded length, whatever stands in the file.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shortened(" ".join(message.split()), _LONGEST_MESSAGE))


class VerificationError(ConvfindError):
    """A result that differs from the reference by more than its error bound."""


class FindDbError(ConvfindError):
    """The database cannot do what was asked."""


class FindDbCorruptError(FindDbError):
    """A damaged database file or record."""


class FindDbVersionError(FindDbError):
    """A database written by a newer schema than this version knows."""


class ModelError(ConvfindError):
    """A model file of a heuristic that is missing, damaged or made for another version."""


class PluginError(ConvfindError):
    """A plugin that breaks its contract."""


class SolverError(PluginError):
    """A solver that raised an error, or answered what cannot be."""

    def __init__(self, solver: str, detail: str) -> None:
        super().__init__(f"solver {solver} fails: {detail}")
        self.solver = solver
        self.detail = detail

    def __reduce__(self) -> tuple[type[SolverError], tuple[str, str]]:
        return type(self), (self.solver, self.detail)


class DuplicateIdError(PluginError):
    """Two packages register the same id."""

    def __init__(self, kind: str, identifier: str, first: str, second: str) -> None:
        super().__init__(
            f"{kind} {identifier!r} is registered by both {first} and {second}; uninstall one"
        )
        self.identifier = identifier
        self.first = first
        self.second = second

    def __reduce__(self) -> tuple[type[DuplicateIdError], tuple[str, str, str, str]]:
        return type(self), (str(self).split(" ", 1)[0], self.identifier, self.first, self.second)


class SettingsError(ConvfindError, ValueError):
    """An environment variable or option with an illegal value."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name}: {shown(value)} is not a legal value; legal: {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type[SettingsError], tuple[str, object, str]]:
        return type(self), (self.name, self.value, self.allowed)
