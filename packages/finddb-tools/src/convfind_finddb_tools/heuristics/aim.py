"""`Aim`: how much it counts which solver a network would choose."""

from __future__ import annotations

from dataclasses import dataclass

CONTRAST = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """How much a network's choice counts beside its times, of what is measured and in lessons."""

    choice: float = 1.0  # weight of its cross-entropy
    sharpness: float = 8.0  # log times to odds while training
    contrast: float = CONTRAST  # power of the time in the targets of what is measured


FAIR = Aim()
FIRST = Aim(choice=3.0, sharpness=14.0, contrast=40.0)  # more first choices, worse times
