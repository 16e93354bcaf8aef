"""`Aim`: the weight of a network's choice of solver in its training."""

from __future__ import annotations

from dataclasses import dataclass

CONTRAST = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Weight of a network's choice relative to its times, for measured problems and lessons."""

    choice: float = 1.0  # weight of its cross-entropy
    sharpness: float = 8.0  # log times to odds while training
    contrast: float = CONTRAST  # power of the time in the targets of what is measured


FAIR = Aim()
FIRST = Aim(choice=3.0, sharpness=14.0, contrast=40.0)  # more first choices, worse times
