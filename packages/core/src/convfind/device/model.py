"""`DeviceModel`: the speed of a GPU's compute unit, by data sheets."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final, Self

from convfind.device.target import Target


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """The peak speed of one compute unit of a GPU.

    Solvers expect of themselves a share of it; nothing but their order follows from that.

    Attributes:
        flops: float32 operations in a second by plain arithmetic, without matrix instructions.
        bandwidth: bytes from or to the device's memory in a second, all units at work.
    """

    flops: float
    bandwidth: float

    @classmethod
    def of(cls, target: Target) -> DeviceModel:
        """Return the model of a device: of its name, its architecture, or an H200's."""
        return cls.known(target) or MEASURED

    @classmethod
    def known(cls, target: Target) -> DeviceModel | None:
        """Return the model of a device whose data sheet is known; None of any other."""
        return _model(target.arch.partition(":")[0], target.name)

    @classmethod
    def whole(cls, units: int, teraflops: float, gigabytes: float) -> Self:
        """Return the model of a device with so many units, TFLOP/s and GB/s."""
        return cls(teraflops * 1e12 / units, gigabytes * 1e9 / units)


#: The device on which the kernels' rates were measured.
MEASURED: Final = DeviceModel(flops=507e9, bandwidth=4800e9 / 132)
#: By architecture and a part of the name, which may be empty: units, TFLOP/s and GB/s of a device
#: as its vendor states them. AMD's figures are without packed or dual-issued instructions.
_MODELS: Final = {
    ("sm_70", ""): DeviceModel.whole(80, 15.7, 900),  # V100
    ("sm_75", ""): DeviceModel.whole(40, 8.1, 320),  # T4
    ("sm_80", "80GB"): DeviceModel.whole(108, 19.5, 1935),  # A100
    ("sm_80", ""): DeviceModel.whole(108, 19.5, 1555),
    ("sm_86", ""): DeviceModel.whole(84, 37.4, 696),  # A10G, A40, RTX 30
    ("sm_89", ""): DeviceModel.whole(142, 91.6, 864),  # L40S, RTX 40
    ("sm_90", "H200"): MEASURED,
    ("sm_90", ""): DeviceModel(MEASURED.flops, 3350e9 / 132),  # H100
    ("sm_100", ""): DeviceModel.whole(148, 74.5, 8000),  # B200
    ("sm_120", ""): DeviceModel.whole(170, 104.8, 1792),  # RTX 50
    ("gfx906", ""): DeviceModel.whole(60, 13.3, 1024),  # MI50
    ("gfx908", ""): DeviceModel.whole(120, 23.1, 1229),  # MI100
    ("gfx90a", ""): DeviceModel.whole(110, 23.9, 1638),  # MI250, one of two
    ("gfx942", ""): DeviceModel.whole(304, 81.7, 5300),  # MI300X
    ("gfx1030", ""): DeviceModel.whole(40, 23.0, 512),  # RX 6900, pairs of units
    ("gfx1100", ""): DeviceModel.whole(48, 30.7, 960),  # RX 7900, pairs of units
}


@functools.lru_cache(maxsize=64)
def _model(arch: str, name: str) -> DeviceModel | None:
    for (known, part), model in _MODELS.items():
        if known == arch and part in name:
            return model
    return None
