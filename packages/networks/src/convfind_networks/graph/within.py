"""`Within`: the place of a value that lies between the channels of another one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Within:
    """Where a value lies in the pixels of a larger one: which one, and its first channel there."""

    whole: str
    channel: int
