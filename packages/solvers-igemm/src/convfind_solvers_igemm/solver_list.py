"""The solvers of the family, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind_solvers_igemm.cpu import (
    ChannelsFirstBackwardData,
    ChannelsFirstForward,
    ChannelsLastBackwardData,
    ChannelsLastBackwardDataInline,
    ChannelsLastForward,
    ChannelsLastForwardInline,
)


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return [
        ChannelsFirstForward(),
        ChannelsLastForward(),
        ChannelsLastForwardInline(),
        ChannelsFirstBackwardData(),
        ChannelsLastBackwardData(),
        ChannelsLastBackwardDataInline(),
    ]
