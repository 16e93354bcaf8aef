"""Recipes as data: which memory their steps name, and how it moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.errors import LaunchError
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import (
    BufferArg,
    Fill,
    GemmEpilogue,
    Launch,
    LibraryGemm,
    Matrix,
    Memory,
    Recipe,
    Step,
    i32,
    memory_names,
    relocated,
)
from convfind.types import DataType

PROGRAM = Program(KernelSource("convfind", "kernels/any.cl"))
ARGUMENTS = (BufferArg("bias", 512), i32(3), BufferArg(Memory.PACKED), BufferArg("bias"))
LAUNCH = Launch(KernelSpec(PROGRAM, "any"), ARGUMENTS, (4,), (2,))
GEMM = LibraryGemm(
    *(1, 1, 1),
    Matrix("x", DataType.FLOAT32, 1),
    Matrix("tokens", DataType.FLOAT32, 1),
    Matrix("y", DataType.FLOAT32, 1),
)
STEPS: tuple[Step, ...] = (LAUNCH, Fill("y", 0, 4), GEMM)


def test_steps_name_their_memory_once_in_order_of_use() -> None:
    assert memory_names(STEPS) == ("bias", "packed", "y", "x", "tokens")
    assert memory_names(()) == ()


@pytest.mark.parametrize("name", ["", "layer.weight", "a b", "1st", "y-1"])
def test_a_name_is_an_identifier(name: str) -> None:
    with pytest.raises(LaunchError, match="letters, digits"):
        memory_names([Fill(name, 0, 4)])


def test_memory_of_every_step_moves() -> None:
    moved = tuple(relocated(step, lambda name, at: ("arena", at + 1024)) for step in STEPS)
    assert memory_names(moved) == ("arena",)
    assert moved[0] == Launch(
        LAUNCH.kernel,
        (*(BufferArg("arena", 1536), i32(3)), *(BufferArg("arena", 1024),) * 2),
        *((4,), (2,)),
    )
    assert moved[1] == Fill("arena", 1024, 4)
    assert isinstance(moved[2], LibraryGemm)
    assert [m.offset for m in (moved[2].a, moved[2].b, moved[2].c)] == [1024] * 3


def test_matrices_of_an_epilogue_are_named_and_move() -> None:
    bias, z = Matrix("bias", DataType.FLOAT32, 1), Matrix("z", DataType.FLOAT32, 1, offset=512)
    for epilogue, names in (
        (GemmEpilogue(bias, z, "relu"), ("x", "tokens", "y", "bias", "z")),
        (GemmEpilogue(z=z), ("x", "tokens", "y", "z")),
        (GemmEpilogue(activation="relu"), ("x", "tokens", "y")),
    ):
        gemm = replace(GEMM, epilogue=epilogue)
        assert memory_names([gemm]) == names
        moved = relocated(gemm, lambda name, at: (f"{name}_moved", at + 1024))
        assert isinstance(moved, LibraryGemm)
        assert memory_names([moved]) == tuple(f"{name}_moved" for name in names)
        assert [m.offset for m in moved.matrices] == [m.offset + 1024 for m in gemm.matrices]
        assert moved.epilogue is not None
        assert moved.epilogue.activation == epilogue.activation


def test_an_unbound_run_packs_behind_its_workspace() -> None:
    recipe = Recipe("any", (LAUNCH,), prepare=(Fill("packed", 8, 4),), workspace=100, packed=12)
    assert recipe.total_workspace == 512 + 12
    assert memory_names(recipe.unbound_steps) == ("workspace", "bias")
    assert recipe.unbound_steps[0] == Fill("workspace", 520, 4)
