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
from convfind_solvers_igemm.cpu_rows import (
    ChannelsFirstRowsBackwardData,
    ChannelsFirstRowsForward,
    ChannelsLastRowsBackwardData,
    ChannelsLastRowsForward,
)
from convfind_solvers_igemm.cpu_weights import (
    ChannelsFirstBackwardWeights,
    ChannelsLastBackwardWeights,
)
from convfind_solvers_igemm.cpu_weights_rows import ChannelsFirstRowsBackwardWeights
from convfind_solvers_igemm.cpu_widened import (
    ChannelsFirstBackwardDataWidened,
    ChannelsFirstBackwardWeightsWidened,
    ChannelsFirstForwardWidened,
    ChannelsLastBackwardDataWidened,
    ChannelsLastBackwardWeightsWidened,
    ChannelsLastForwardWidened,
)
from convfind_solvers_igemm.gpu_conv import CONV_SOLVERS
from convfind_solvers_igemm.gpu_weights import WEIGHTS_SOLVERS
from convfind_solvers_igemm.nvidia_conv import MATRIX_CONV_SOLVERS
from convfind_solvers_igemm.nvidia_weights import MATRIX_WEIGHTS_SOLVERS


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return [
        ChannelsFirstRowsForward(),
        ChannelsFirstForward(),
        ChannelsLastRowsForward(),
        ChannelsLastForward(),
        ChannelsLastForwardInline(),
        ChannelsFirstRowsBackwardData(),
        ChannelsFirstBackwardData(),
        ChannelsLastRowsBackwardData(),
        ChannelsLastBackwardData(),
        ChannelsLastBackwardDataInline(),
        ChannelsFirstRowsBackwardWeights(),
        ChannelsFirstBackwardWeights(),
        ChannelsLastBackwardWeights(),
        ChannelsFirstForwardWidened(),
        ChannelsLastForwardWidened(),
        ChannelsFirstBackwardDataWidened(),
        ChannelsLastBackwardDataWidened(),
        ChannelsFirstBackwardWeightsWidened(),
        ChannelsLastBackwardWeightsWidened(),
        *(solver() for solver in (*MATRIX_CONV_SOLVERS, *MATRIX_WEIGHTS_SOLVERS)),
        *(solver() for solver in (*CONV_SOLVERS, *WEIGHTS_SOLVERS)),
    ]
