"""`Applicable` and `Rejected`: a solver's answer to whether it takes a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convfind.reasons import Reason


@dataclass(frozen=True, slots=True)
class Applicable:
    """The solver takes the problem. The only instance is `APPLICABLE`."""

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Rejected:
    """The solver does not take the problem, and why."""

    reason: Reason
    detail: str = ""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.reason.text} ({self.detail})" if self.detail else self.reason.text


Applicability = Applicable | Rejected
APPLICABLE: Final = Applicable()
