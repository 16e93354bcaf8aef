"""`SolverReport`, `BackendReport`: the findings of `check_solver` and `check_backend`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Failure:
    """One violation of the contract."""

    check: str
    problem: str  # its key, or the device's identity; empty if none is concerned
    detail: str

    def __str__(self) -> str:
        return f"{self.check}: {self.detail}" + (f" [{self.problem}]" if self.problem else "")


@dataclass(slots=True)
class SolverReport:
    """All findings of a check of one solver on one device."""

    solver: str
    device: str
    problems: list[str] = field(default_factory=list)  # keys of those that ran
    with_epilogue: list[str] = field(default_factory=list)  # keys of further ones, with one
    rejected: dict[str, str] = field(default_factory=dict)  # key of the problem: the refusal
    failures: list[Failure] = field(default_factory=list)
    worst_error: float = 0.0  # largest measured error, as a share of its bound

    @property
    def ok(self) -> bool:
        """True if nothing failed and at least one problem ran."""
        return bool(self.problems) and not self.failures

    def fail(self, check: str, problem: object, detail: object) -> None:
        """Record a failure."""
        self.failures.append(Failure(check, str(problem), str(detail)))

    def __str__(self) -> str:
        head = (
            f"{self.solver} on {self.device}: {len(self.problems)} problems ran, "
            f"{len(self.rejected)} refused, {len(self.failures)} failures, "
            f"largest error {self.worst_error:.2g} of its bound"
        )
        if not self.problems:
            head += "; nothing ran: give check_solver shapes that the solver takes"
        return "\n  ".join([head, *map(str, self.failures)])


@dataclass(slots=True)
class BackendReport:
    """All findings of a check of a backend on its devices."""

    backend: str
    devices: list[str] = field(default_factory=list)  # their identities
    passed: list[str] = field(default_factory=list)  # checks, once for each device
    skipped: dict[str, str] = field(default_factory=dict)  # parts that a backend may leave out
    failures: list[Failure] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if nothing failed and at least one check passed."""
        return bool(self.passed) and not self.failures

    def fail(self, check: str, device: str, detail: object) -> None:
        """Record a failure."""
        self.failures.append(Failure(check, device, str(detail)))

    def __str__(self) -> str:
        head = (
            f"{self.backend} on {', '.join(self.devices) or 'no device'}: {len(self.passed)} "
            f"checks passed, {len(self.skipped)} left out, {len(self.failures)} failures"
        )
        left_out = [f"left out: {name}: {why}" for name, why in self.skipped.items()]
        return "\n  ".join([head, *map(str, self.failures), *left_out])
