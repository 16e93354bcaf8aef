"""Programs and launches in few words are those in many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convfind.kit.launching import Grid, Kernels, work_group
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, LocalArg, ScalarArg, i32, i64, moved_to

PROGRAM = Program(KernelSource("convfind_example", "kernels/add.cl"))


def test_a_program_is_a_file_in_the_folder_of_kernels_with_macros() -> None:
    kernels = Kernels("convfind_example", KernelLanguage.OPENCL_C)
    assert kernels.program("add", {"ROWS": 3, "LAST": False}, {"ROWS": 4}, LAST=True) == Program(
        KernelSource("convfind_example", "kernels/add.cl"),
        KernelLanguage.OPENCL_C,
        make_defines(ROWS=4, LAST=True),
    )
    assert Kernels("convfind_example").program("add") == PROGRAM
    assert Kernels("convfind_example").program("add", options=("-O1",)).options == ("-O1",)


@pytest.mark.parametrize(
    ("work_groups", "items", "global_size", "local_size"),
    [
        (7, 1, (7,), (1,)),
        (7, 64, (448,), (64,)),
        ((7,), 64, (448,), (64,)),
        ((3, 5), 1, (3, 5), (1, 1)),
        ((3, 5, 2), 32, (96, 5, 2), (32, 1, 1)),
    ],
)
def test_a_grid_has_its_items_along_the_first_axis(
    work_groups: int | tuple[int, ...],
    items: int,
    global_size: tuple[int, ...],
    local_size: tuple[int, ...],
) -> None:
    launch = Grid(PROGRAM, "add", work_groups, items)("x")
    assert launch == Launch(KernelSpec(PROGRAM, "add"), (BufferArg("x"),), global_size, local_size)


def test_words_are_memory_and_whole_numbers_are_of_32_bits() -> None:
    launch = Grid(PROGRAM, "add", 1)("x", 3, True, i64(5), BufferArg("w", 512), LocalArg(64))
    assert launch.arguments == (
        *(BufferArg("x"), i32(3), i32(1), i64(5)),
        *(BufferArg("w", 512), LocalArg(64)),
    )
    assert all(type(a.value) is int for a in launch.arguments if isinstance(a, ScalarArg))


@pytest.mark.parametrize(
    ("items", "most", "group"),
    [
        ((1000, 50, 7), 64, (64, 1, 1)),
        ((5, 50, 7), 64, (8, 8, 1)),
        ((1, 3, 7), 64, (1, 4, 1)),
        ((1, 1, 7), 64, (1, 1, 1)),
        ((1000, 50, 7), 100, (64, 1, 1)),
        ((1000, 50, 7), 1, (1, 1, 1)),
    ],
)
def test_a_work_group_has_neighbours_along_the_first_axis(
    items: tuple[int, int, int], most: int, group: tuple[int, int, int]
) -> None:
    assert work_group(items, most) == group


def test_numbers_of_numpy_are_numbers_and_what_is_no_argument_is_refused() -> None:
    sizes: Any = np.array([3, 4])
    assert Grid(PROGRAM, "add", 1)(sizes[0]).arguments == (i32(3),)
    others: tuple[Any, ...] = (0.5, None, sizes)
    for given in others:
        with pytest.raises(TypeError, match="is no kernel argument"):
            Grid(PROGRAM, "add", 1)(given)


def test_a_work_group_may_have_items_along_each_axis() -> None:
    launch = Grid(PROGRAM, "add", (3, 5, 7), (8, 2, 1))("x")
    assert launch.global_size == (24, 10, 7)
    assert launch.local_size == (8, 2, 1)


def test_steps_move_to_new_places() -> None:
    launch = Grid(PROGRAM, "add", 3)("x", BufferArg("y", 16))
    (moved,) = moved_to([launch], {"y": BufferArg("workspace", 256)})
    assert isinstance(moved, Launch)
    assert moved.arguments == (BufferArg("x"), BufferArg("workspace", 272))
