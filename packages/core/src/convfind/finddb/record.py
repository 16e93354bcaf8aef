"""Records of solvers on one problem and device, as the database keeps them.

All of these are stored as arrays of their fields in the order given here. New fields go at the end
and have a default: old programs ignore what they do not know, new ones fill in what is missing.
"""

from __future__ import annotations

import msgspec

from convfind.solver.config import ConfigValue


class FindRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A measurement that explains itself. Times are in milliseconds, sizes in bytes."""

    solver: str
    solver_version: int
    package: str  # distribution and version that shipped the solver
    algorithm: str
    time_ms: float
    spread_ms: float = 0.0
    samples: int = 0
    workspace: int = 0
    config: dict[str, ConfigValue] | None = None
    error: float | None = None
    source_hash: str = ""
    driver: str = ""  # driver and compiler identity: another one makes the record stale
    created: int = 0  # seconds since 1970
    constant_weights: bool = False


class FindEntry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Everything recorded for one problem on one device.

    ``considered`` names every solver, as ``id@version``, about which the searches so far decided:
    measured, refused or failed. A solver that is missing (installed later, not dynamic in a
    dynamic-only search, or not reached within the time budget) is what a richer find still has to
    measure; a narrow search therefore never hides anything.
    """

    records: tuple[FindRecord, ...]
    considered: tuple[str, ...] = ()


class EntryInFile(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A `FindEntry` as files have it: considered are those names of a roster whose bits are set.

    Entries of earlier versions name them in ``considered``, where programs of that time look.
    """

    records: tuple[FindRecord, ...]
    considered: tuple[str, ...] = ()
    roster: bytes = b""  # digest
    bits: bytes = b""


class QuarantineRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A solver that crashed, hung or gave a wrong result for a problem, and is not tried again."""

    solver: str
    solver_version: int
    source_hash: str
    driver: str
    reason: str
    detail: str = ""
    created: int = 0
    config: dict[str, ConfigValue] | None = None  # with which it failed


class TunedConfig(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The best config that a search found for one solver on one problem and device."""

    solver: str
    solver_version: int
    config: dict[str, ConfigValue]
    time_ms: float
    created: int = 0
