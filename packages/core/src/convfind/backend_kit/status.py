"""`StatusAdvice`: a runtime's status by name, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from convfind.errors import DeviceError, LaunchError

#: Errors that a runtime's status becomes: of the device, or of a launch.
RuntimeFailure = type[DeviceError] | type[LaunchError]


@dataclass(frozen=True, slots=True)
class StatusAdvice:
    """Advice about each status of a runtime, by its name; ``otherwise`` for all others."""

    by_name: Mapping[str, str]
    otherwise: str = ""

    def error(
        self, kind: RuntimeFailure, doing: str, status: str, call: str = ""
    ) -> DeviceError | LaunchError:
        """Return the error for a status: ``doing`` is what failed, with its values."""
        advice = self.by_name.get(status, self.otherwise)
        failed = f"{doing}: {call} failed" if call else f"{doing} failed"
        return kind(f"{failed} with {status}" + (f"; {advice}" if advice else ""))
