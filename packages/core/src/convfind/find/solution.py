"""`Solution`: a solver's name with evidence: how fast, measured where, how accurate."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convfind.errors import SolutionError
from convfind.find.solution_file import fields_from_bytes, solution_to_bytes
from convfind.find.time_origin import TimeOrigin
from convfind.finddb.evidence import is_noisy
from convfind.solver.config import Config
from convfind.types import Algorithm

__all__ = ["Solution", "TimeOrigin"]


@dataclass(frozen=True, slots=True)
class Solution:
    """A find's result for one solver: identity and evidence; no device handle; picklable.

    Attributes:
        solver: id of the solver.
        algorithm: its family.
        problem: key of the problem, as `ConvProblem.from_key` reads it.
        device: identity of the device, `Target.identity`.
        time_ms: milliseconds of device time; None where no device ran it.
        time_origin: where the time comes from.
        workspace: bytes of device memory that an unbound run needs.
        error: largest error of the checked run, relative as `convfind.checking.accuracy` has it.
        config: tuning parameters; None: the solver's defaults.
        samples: how many runs the time is of.
        spread: interquartile range of their times in milliseconds.
        over_limit: needs more workspace than the limit of the find: listed, never chosen.
        constant_weights: timed with weights packed beforehand.
        stale: measured with another driver.
        confidence: that a prediction is right, 0 to 1.
        binaries: compiled kernels by key, where they were asked for.
        estimate_ms: the time, else what a model or an index expects, else None.
    """

    solver: str
    algorithm: Algorithm
    problem: str
    device: str
    time_ms: float | None
    time_origin: TimeOrigin
    workspace: int
    error: float | None = None
    config: Config | None = None
    samples: int = 0
    spread: float = 0.0
    over_limit: bool = False
    constant_weights: bool = False
    stale: bool = False
    confidence: float | None = None
    binaries: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    estimate_ms: float | None = None

    def __post_init__(self) -> None:
        if self.time_ms is not None:
            object.__setattr__(self, "estimate_ms", self.time_ms)

    def to_bytes(self) -> bytes:
        """Return JSON with the device's identity, in which `binaries` are, too."""
        return solution_to_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes, *, binaries: bool = False) -> Solution:
        """Read what `to_bytes` returned; see `load`. Raises `SolutionError`."""
        return cls(**fields_from_bytes(data, binaries=binaries))

    def save(self, path: str | Path) -> None:
        """Write to a file, as JSON with the device's identity. Raises `OSError`."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path, *, binaries: bool = False) -> Solution:
        """Read from a file; device and config are checked when it is run.

        Args:
            path: what `save` wrote.
            binaries: run the compiled kernels that the file carries, if it does. They are machine
                code that nobody checks: only right for a file from somebody you trust. Without it
                kernels are compiled here.

        Raises:
            SolutionError: the file is missing or not a saved solution.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as exc:
            msg = f"cannot read solution {path}: {exc.strerror}"
            raise SolutionError(msg) from exc
        return cls.from_bytes(data, binaries=binaries)

    @property
    def is_noisy(self) -> bool:
        """True where a measured time may be the machine's fault: its samples differ too much."""
        return self.time_ms is not None and is_noisy(self.time_ms, self.spread)

    @property
    def signed_ms(self) -> float:
        """The time as texts and MIOpen's calls have it: negative where nobody measured it.

        Its size is the estimate then, or it is -1 where there is none.
        """
        if self.time_ms is not None:
            return self.time_ms
        return -1.0 if self.estimate_ms is None else -self.estimate_ms

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON says of a solution; a time that nobody measured is negative there."""
        return {
            "solver": self.solver,
            "algorithm": self.algorithm.value,
            "time_ms": self.signed_ms,
            "time_origin": self.time_origin.value,
            "workspace": self.workspace,
            "error": self.error,
            "config": None if self.config is None else dict(self.config),
            "samples": self.samples,
            "spread_ms": self.spread,
            "noisy": self.is_noisy,
            "over_limit": self.over_limit,
            "stale": self.stale,
        }
