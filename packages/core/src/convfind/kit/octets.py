"""Groups of some channels on CPUs, in vectors of eight: which are taken, and their register tiles.

Kernels for them have sums of a few results in registers, with a vector of weights and a value.
"""

from __future__ import annotations

from typing import Final

from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected

#: Channels of a vector.
OCTET: Final = 8
#: Results of a register tile by its vectors of filters: what 16 registers hold.
OCTET_ROWS: Final = {3: 4, 2: 6, 1: 8}
#: More channels or filters are a matrix product that others cut better, or whose weights no level-1
#: cache holds beside the data.
_MOST_CHANNELS = 64


def judge_octets(channels: int, filters: int) -> Applicability:
    """Judge groups of so many channels and filters: whole vectors of them, and few."""
    if channels % OCTET or filters % OCTET:
        return Rejected(Reason.CHANNELS, "is for multiples of 8 channels and filters a group")
    if max(channels, filters) > _MOST_CHANNELS:
        detail = f"is for at most {_MOST_CHANNELS} channels and filters a group"
        return Rejected(Reason.CHANNELS, detail)
    return APPLICABLE


def vectors_of_filters(filters: int) -> int:
    """Return the vectors of filters of a register tile: the most that divide those of a group."""
    return next(vectors for vectors in (3, 2, 1) if filters % (vectors * OCTET) == 0)
