"""Launches: programs, arguments and work-items that kernels of operators have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from convfind.device.target import DeviceKind, Target
from convfind.problem.activation import Activation
from convfind.solver.defines import DefineValue, make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import Argument, BufferArg, ScalarArg, i32, i64
from convfind_operators.element_type import ElementType
from convfind_operators.walk import MOST_AXES, View, Walk

#: Elements of a vector on CPUs.
VECTOR: Final = 16
#: Work-items a core, so that cores that are slowed down get fewer; elements that one is worth.
_ITEMS_PER_CORE = 4
_LEAST_ELEMENTS = 4096
#: Work-items of a group and of a launch on GPUs; kernels loop over what is beyond them.
GROUP: Final = 256
_MOST_ITEMS = 2**30
#: Types of elements that GPUs load and store in fours.
IN_FOURS: Final = (ElementType.FLOAT32, ElementType.FLOAT16, ElementType.BFLOAT16)
#: A row of these, with a rest that is no load of 8, is worth loads of 8.
_LEAST_IN_EIGHTS = 128


def has_vectors(target: Target) -> bool:
    """Return whether kernels work on vectors of neighbours, as they do on CPUs, in OpenCL C."""
    return target.kind is DeviceKind.CPU


def kernel(
    file: str,
    entry: str,
    target: Target,
    macros: Mapping[str, DefineValue],
    *,
    scalar: bool = False,
) -> KernelSpec:
    """Return the kernel of a file, for vectors where the target has them, unless told not to."""
    vectors = has_vectors(target) and not scalar
    program = Program(
        KernelSource("convfind_operators", f"kernels/{file}.cl"),
        KernelLanguage.OPENCL_C if vectors else KernelLanguage.SHARED,
        make_defines({"WIDTH": VECTOR} if vectors else {}, macros),
    )
    return KernelSpec(program, entry)


def number(value: float, arithmetic: ElementType) -> ScalarArg:
    """Return a number as kernels take it that compute in a type."""
    if arithmetic.is_float:
        return ScalarArg(value, arithmetic.value)
    ends = np.iinfo(arithmetic.value)
    whole = min(max(value, int(ends.min)), int(ends.max))  # infinity too
    return ScalarArg(int(whole), arithmetic.value)


def activated(
    activation: Activation | None, arithmetic: ElementType
) -> tuple[dict[str, int | str], tuple[Argument, ...]]:
    """Return the macros and the last arguments of kernels whose results an activation ends."""
    if activation is None:
        return {}, ()
    macros: dict[str, int | str] = {"CF_ACTIVATION": activation.kind.macro}
    return macros, tuple(number(value, arithmetic) for value in activation.numbers)


def steps_of(view: View) -> tuple[Argument, ...]:
    """Return the arguments of ``STEPS``: the start, the steps of the rows' axes, that in a row."""
    *outer, step = view.steps
    return tuple(map(i64, (view.start, *_filled(outer, 0), step)))


def row_sizes(sizes: tuple[int, ...]) -> tuple[Argument, ...]:
    """Return the arguments of ``ROW_SIZES``: sizes of the rows' axes but the first."""
    return tuple(map(i32, _filled(sizes[:-1], 1)[1:]))


def arguments_of(view: View) -> tuple[Argument, ...]:
    """Return a view's memory and its ``STEPS``."""
    return (BufferArg(view.name), *steps_of(view))


def step_class(view: View) -> int:
    """Return how elements of a row lie: 0 one for all, 1 neighbours, 2 at any distance."""
    return view.steps[-1] if view.steps[-1] in (0, 1) else 2


def neighbours(walk: Walk) -> int:
    """Return how many elements of a row are one load on GPUs, or one number, in all tensors.

    They are 8 of 16-bit types in a row that is long or a multiple, else 4, or 1.
    """
    if walk.length == 1:
        return 1
    moving = [view for view in walk.views if view.steps[-1]]
    if any(view.steps[-1] != 1 or view.dtype not in IN_FOURS for view in moving):
        return 1
    places = [place for view in moving for place in (view.start, *view.steps[:-1])]
    is_narrow = all(view.dtype.size == 2 for view in moving)
    is_worth = not walk.length % 8 or walk.length >= _LEAST_IN_EIGHTS
    if is_narrow and is_worth and not any(place % 8 for place in places):
        return 8
    return 1 if any(place % 4 for place in places) else 4


def index_type(count: int) -> str:
    """Return the type of kernels' that counts to a number, and over it by a launch's work-items."""
    return "CF_UINT" if count <= _MOST_ITEMS else "CF_LONG"


def streamed(result: ElementType, elements: int, target: Target) -> dict[str, int | str]:
    """Return the macro for a result that is larger than what caches would keep of it."""
    is_large = elements * result.size > target.cache // 2
    is_here = result is ElementType.FLOAT32 and has_vectors(target) and is_large
    return {"STREAMED": 1} if is_here else {}


def _filled(values: list[int] | tuple[int, ...], missing: int) -> tuple[int, ...]:
    return (*values, *(missing,) * (MOST_AXES - 1 - len(values)))


@dataclass(frozen=True, slots=True)
class Division:
    """How CPU cores share a walk: rows of a work-item, and elements that it has of each row."""

    rows: int
    columns: int
    global_size: tuple[int, int]

    @classmethod
    def of(cls, rows: int, length: int, target: Target, cost: int = 1) -> Division:
        """Divide so many rows of a length, whose elements cost so much, among all cores."""
        work = rows * length * cost
        items = max(1, min(_ITEMS_PER_CORE * target.compute_units, work // _LEAST_ELEMENTS))
        if target.compute_units == 1:
            items = 1
        per_item = -(-rows // min(items, rows))
        parts = -(-items // -(-rows // per_item)) if rows < items else 1
        columns = -(-length // parts // VECTOR) * VECTOR if parts > 1 else length
        columns = max(columns, 1)
        return cls(per_item, columns, (-(-rows // per_item), -(-length // columns)))


def grid(elements: int, target: Target) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return global and local size of a launch on a GPU with a work-item for each element."""
    group = min(GROUP, target.max_work_group)
    items = min(elements, _MOST_ITEMS)
    return (-(-items // group) * group,), (group,)


def spread(elements: int, target: Target) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return sizes of a launch whose work-items take every so many-th element, on any device."""
    if not has_vectors(target):
        return grid(elements, target)
    return (Division.of(elements, 1, target).global_size[0],), (1,)
