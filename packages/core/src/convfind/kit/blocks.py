"""The building blocks that most solvers need, in one place: what their modules import."""

from __future__ import annotations

from convfind.kit.device_room import copies_past_registers, has_room
from convfind.kit.epilogue import NO_EPILOGUE, Epilogue, channel_of_place
from convfind.kit.geometry import Geometry, per_axis
from convfind.kit.gpu_tile import ConfigTile, GpuTile, ProductTile, TileRate, declarable_memory
from convfind.kit.launching import Grid, Kernels, work_group
from convfind.kit.octets import OCTET, OCTET_ROWS, judge_octets, vectors_of_filters
from convfind.kit.parts import (
    bytes_of_parts,
    even_length,
    even_parts,
    part_bytes,
    parts_in_rounds,
    parts_of_result,
    parts_within,
    pieces,
)
from convfind.kit.recipe_solver import Limit, RecipeSolver, TunableRecipeSolver
from convfind.kit.register_limit import ALL_REGISTERS, UNIT_REGISTERS, register_limit
from convfind.kit.register_tile import (
    BROADCAST,
    COMPLEX,
    OUTER,
    PRODUCT,
    TRANSFORMED,
    RegisterTile,
    has_many_registers,
)
from convfind.kit.sizes import Axes, ceil_div, in_3d, round_up
from convfind.kit.throughput import (
    cpu_index,
    fill,
    gpu_index,
    memory_seconds,
    peak_seconds,
    product_index,
)
from convfind.kit.variant import PlainVariant, TunableVariant, Variant

__all__ = [
    "ALL_REGISTERS",
    "BROADCAST",
    "COMPLEX",
    "NO_EPILOGUE",
    "OCTET",
    "OCTET_ROWS",
    "OUTER",
    "PRODUCT",
    "TRANSFORMED",
    "UNIT_REGISTERS",
    "Axes",
    "ConfigTile",
    "Epilogue",
    "Geometry",
    "GpuTile",
    "Grid",
    "Kernels",
    "Limit",
    "PlainVariant",
    "ProductTile",
    "RecipeSolver",
    "RegisterTile",
    "TileRate",
    "TunableRecipeSolver",
    "TunableVariant",
    "Variant",
    "bytes_of_parts",
    "ceil_div",
    "channel_of_place",
    "copies_past_registers",
    "cpu_index",
    "declarable_memory",
    "even_length",
    "even_parts",
    "fill",
    "gpu_index",
    "has_many_registers",
    "has_room",
    "in_3d",
    "judge_octets",
    "memory_seconds",
    "part_bytes",
    "parts_in_rounds",
    "parts_of_result",
    "parts_within",
    "peak_seconds",
    "per_axis",
    "pieces",
    "product_index",
    "register_limit",
    "round_up",
    "vectors_of_filters",
    "work_group",
]
