"""Tiles read and write configs, and units work in rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from convfind.kit.gpu_tile import GpuTile, ProductTile, TileRate, declarable_memory
from convfind.solver.config import Config
from convfind.testing import MOCK_TARGET


@dataclass(frozen=True, slots=True)
class Own(GpuTile):
    """A tile with a parameter of its own."""

    split: int = 3


def test_a_tile_is_its_config() -> None:
    tile = Own(64, 128, 16, 8, 16, 5)
    assert Own.of(Config(tile.values)) == tile
    assert Own.of(Config(GpuTile(64, 128, 16, 8, 16).values)) == replace(tile, split=3)
    assert (tile.threads, tile.block) == (128, (8, 8))


@pytest.mark.parametrize(
    ("rows", "columns", "groups"), [(64, 128, 1), (65, 128, 2), (1, 1, 1), (640, 1281, 110)]
)
def test_tiles_cover_a_product(rows: int, columns: int, groups: int) -> None:
    assert Own(64, 128, 16, 8, 16).count(rows, columns) == groups


def test_tiles_state_parameters_and_conditions() -> None:
    tiles = (Own(64, 128, 16, 8, 16), Own(32, 128, 8, 8, 16))
    rows, split = Own.parameters(tiles, {"tile_m": "rows", "split": "parts"})
    assert (rows.name, rows.values, rows.meaning) == ("tile_m", (32, 64), "rows")
    assert (split.name, split.values) == ("split", (3,))
    few = Own.constraint("few", lambda tile: tile.threads < 128, "too many items")
    assert [few.holds(Config(values)) for values in ({**tiles[0].values, "threads_m": 4},)] == [
        True
    ]
    assert not few.holds(Config(tiles[0].values))
    assert (few.name, few.why) == ("few", "too many items")


def test_a_tiles_time_is_that_of_its_operations_and_of_what_comes_around() -> None:
    rate = TileRate(full=300, single=100, resident=4, around=20)
    seconds = 2 * (100 + 20) * 64 * 32 * rate.busy(25, 10) * 1e-9
    assert rate.seconds(ProductTile(64, 32), 100, 25, 10) == pytest.approx(seconds)


def test_units_work_in_whole_rounds_and_on_what_is_left() -> None:
    rate = TileRate(full=300, single=100, resident=4)
    assert rate.busy(1, 10) == 1 / 100
    assert rate.busy(10, 10) == rate.busy(1, 10)
    assert rate.busy(20, 10) == pytest.approx(2 / 200)
    assert rate.busy(30, 10) == pytest.approx(3 / 300)
    assert rate.busy(40, 10) == pytest.approx(4 / 300)
    assert rate.busy(41, 10) == pytest.approx(4 / 300 + 1 / 100)


def test_nvidias_compiler_grants_more_than_its_devices_report() -> None:
    device = replace(MOCK_TARGET, identity="", local_memory=48, arch="sm_90")
    nvidia = replace(device, features=device.features | {"nv-ptx"})
    assert declarable_memory(device, 96) == 48
    assert declarable_memory(nvidia, 96) == 96
    assert declarable_memory(replace(nvidia, arch="sm_75"), 96) == 48
