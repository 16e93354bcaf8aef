"""`ElementMap`: a function applied along a walk, element by element, as a launch of ``map.cl``."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.problem.activation import Activation
from convfind.solver.recipe import Argument, Launch, i32, i64
from convfind_operators.element_type import ElementType
from convfind_operators.launching import (
    Division,
    arguments_of,
    grid,
    has_vectors,
    kernel,
    number,
    row_sizes,
    step_class,
)
from convfind_operators.walk import View, Walk

#: Functions that kernels define only where they are needed, and the macro that says so.
_NEEDS = {
    "MOD": "NEEDS_MODULO",
    "WHOLE_MOD": "NEEDS_WHOLE_MODULO",
    "WHOLE_POW": "NEEDS_WHOLE_POWER",
}
#: Elements of a work-item on GPUs where all cores have work: so many loads are under way at a time.
_PER_ITEM = 8
#: A row shorter than this is not worth its alignment.
_LEAST_STREAMED = 256


@dataclass(frozen=True, slots=True)
class ElementMap:
    """A function of ``functions.h``, its numbers, and the type in which it is computed."""

    function: str
    arithmetic: ElementType
    a: float = 0.0
    b: float = 0.0
    epsilon: float = 0.0
    activation: Activation | None = None

    def launch(self, walk: Walk, target: Target) -> Launch:
        """Return the launch along a walk: its last view is written, the others are read."""
        *inputs, result = walk.views
        vectors = has_vectors(target)
        macros: dict[str, int | str] = {
            "FUNCTION": self.function,
            "INPUTS": len(inputs),
            "OUTER": len(walk.sizes) - 1,
            "CF_ARITHMETIC": self.arithmetic.upper(),
            "Y_TYPE": result.dtype.upper(),
            "Y_IS": step_class(result),
            **{f"TYPE_{at}": view.dtype.upper() for at, view in enumerate(inputs)},
            **{f"IS_{at}": step_class(view) for at, view in enumerate(inputs)},
        }
        if self.function in _NEEDS:
            macros[_NEEDS[self.function]] = 1
        numbers: tuple[Argument, ...] = ()
        if self.activation is not None:
            macros["CF_ACTIVATION"] = self.activation.kind.macro
            macros["IS_ACTIVATION" if self.function == "ACTIVATION" else "HAS_ACTIVATION"] = 1
            numbers = tuple(number(value, self.arithmetic) for value in self.activation.numbers)
        per_item = 1
        if not vectors:
            launch = grid(1, target)[1][0] * target.compute_units
            per_item = _PER_ITEM if walk.elements >= _PER_ITEM * launch else 1
            macros |= {"PER_ITEM": per_item, "GROUP": grid(1, target)[1][0]}
        if vectors and _is_streamed(walk, self.arithmetic, target):
            macros["STREAMED"] = 1
        division = Division.of(walk.rows, walk.length, target)
        arguments = (
            *(argument for view in walk.views for argument in arguments_of(view)),
            *row_sizes(walk.sizes),
            i32(walk.length),
            i64(walk.elements),
            i64(division.rows),
            i64(division.columns),
            *(number(value, self.arithmetic) for value in (self.a, self.b, self.epsilon)),
            *numbers,
        )
        items = -(-walk.elements // per_item)
        sizes = (division.global_size, (1, 1)) if vectors else grid(items, target)
        return Launch(kernel("map", "operators_map", target, macros), arguments, *sizes)


def copy_of(source: View, result: View) -> ElementMap:
    """Return the map that copies elements as they are, or converts them."""
    return ElementMap("IDENTITY", conversion_type(source.dtype, result.dtype))


def conversion_type(source: ElementType, result: ElementType) -> ElementType:
    """Return the type in which elements of one type become those of another: the source's."""
    if result is ElementType.FLOAT64 and source.is_float:
        return ElementType.FLOAT64
    if result.is_float and not source.is_float:
        return result.arithmetic
    return source.arithmetic


def _is_streamed(walk: Walk, arithmetic: ElementType, target: Target) -> bool:
    """Whether the result is larger than what caches would keep of it."""
    result = walk.views[-1]
    return (
        result.dtype is ElementType.FLOAT32
        and arithmetic is ElementType.FLOAT32
        and result.steps[-1] == 1
        and walk.length >= _LEAST_STREAMED
        and walk.elements * result.dtype.size > target.cache // 2
    )
