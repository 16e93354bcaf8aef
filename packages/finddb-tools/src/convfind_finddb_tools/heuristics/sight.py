"""`Sight`: the encoding of problems as inputs of perceptrons during training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convfind.heuristics.features import REMAINDERS, feature_columns
from convfind.heuristics.neighbours import MORE_INPUTS, Relation
from convfind.heuristics.network import UNSEEN, Floats, Network, log_work
from convfind.heuristics.ramps import Ramps
from convfind_finddb_tools.heuristics.dataset import Dataset
from convfind_finddb_tools.heuristics.nearest import Nearest, told

_FINE = 0.25  # size of ramps and remainders: at full scale they overfit rare cases


@dataclass(frozen=True, slots=True)
class Sight:
    """Normalised ramps, features and inputs from neighbours, then a column for each device.

    Attributes:
        network: its direction, and the neighbours that it must be told of.
        units: compute units of each device.
        ramps: of the features.
        mean, scale: of all but the columns for devices.
    """

    network: Network
    units: NDArray[np.float32]
    ramps: Ramps
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, part: Dataset, network: Network, *, is_fine: bool) -> Sight:
        """Return the sight of perceptrons for these problems; ``is_fine``: ramps, remainders."""
        units = np.array([device.compute_units for device in part.devices], np.float32)
        columns = feature_columns(part.rows, units[part.device], network.direction)
        ramps = Ramps.of(columns) if is_fine else Ramps.none()
        values = np.vstack([ramps.of_columns(columns), columns])
        mean = values.mean(axis=1, dtype=np.float64).astype(np.float32)
        scale = values.std(axis=1, dtype=np.float64).astype(np.float32)
        scale[scale < 1e-5] = 1.0
        scale[: len(ramps)] /= _FINE
        scale[-REMAINDERS:] = scale[-REMAINDERS:] / _FINE if is_fine else UNSEEN
        more = sum(len(names) + MORE_INPUTS for _, names in network.evidence)
        mean, scale = np.pad(mean, (0, more)), np.pad(scale, (0, more), constant_values=1.0)
        return cls(network, units, ramps, mean, scale)

    def told(self, part: Dataset, near: Mapping[Relation, Nearest]) -> Floats:
        """Return the inputs from these problems' neighbours, (problems, inputs)."""
        columns = feature_columns(part.rows, self.units[part.device], self.network.direction)
        values = told(self.network, near, columns)
        return np.zeros((len(part), 0), np.float32) if values is None else values

    def inputs(
        self, rows: NDArray[np.int32], device: NDArray[np.int16], told: Floats
    ) -> tuple[Floats, Floats]:
        """Inputs of problems, (problems, inputs), and the logarithms of their work."""
        columns = feature_columns(rows, self.units[device], self.network.direction)
        seen = np.vstack([self.ramps.of_columns(columns), columns]).T
        flags = np.zeros((len(rows), len(self.units)), np.float32)
        flags[np.arange(len(rows)), device] = 1.0
        inputs = np.hstack([(np.hstack([seen, told]) - self.mean) / self.scale, flags])
        return inputs.astype(np.float32, copy=False), log_work(columns)
