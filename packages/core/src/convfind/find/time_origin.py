"""`TimeOrigin`: where a solution's time comes from."""

from __future__ import annotations

from enum import StrEnum


class TimeOrigin(StrEnum):
    """Where a solution's time comes from."""

    MEASURED = "measured"  # in this find
    USER_DB = "user-db"  # measured here earlier
    SYSTEM_DB = "system-db"  # measured by whoever shipped the database
    PREDICTED = "predicted"  # by a heuristic model
    FORECAST = "forecast"  # by records and models of like problems, on this device
    SIBLING = "sibling"  # by a record or model of a related device
    WTI = "wti"  # from the weighted throughput index
    NONE = "none"  # nobody knows

    @property
    def is_measured(self) -> bool:
        """True where a device ran it."""
        return self in (TimeOrigin.MEASURED, TimeOrigin.USER_DB, TimeOrigin.SYSTEM_DB)
