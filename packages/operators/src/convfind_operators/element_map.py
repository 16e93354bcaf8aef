"""`ElementMap`: a function applied along a walk, element by element, as a launch of ``map.cl``."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.problem.activation import Activation
from convfind.solver.recipe import Launch, i32, i64
from convfind_operators.element_type import ElementType
from convfind_operators.launching import (
    Division,
    activated,
    arguments_of,
    grid,
    has_vectors,
    index_type,
    kernel,
    neighbours,
    number,
    row_sizes,
    step_class,
    streamed,
)
from convfind_operators.walk import View, Walk

#: Functions that kernels define only where they are needed, and the macro that says so.
_NEEDS = {
    "MOD": "NEEDS_MODULO",
    "WHOLE_MOD": "NEEDS_WHOLE_MODULO",
    "WHOLE_POW": "NEEDS_WHOLE_POWER",
}
#: Numbers of a work-item on GPUs where all cores have work, of all inputs, whose loads are under
#: way at a time; and the most parts of neighbours that they are.
_UNDER_WAY, _MOST_PARTS = 16, 8
#: A row shorter than this is not worth its alignment.
_LEAST_STREAMED = 256
#: Elements of a cache line of float32.
_LINE = 16


@dataclass(frozen=True, slots=True)
class ElementMap:
    """A function of ``functions.h``, its numbers, and the type in which it is computed.

    ``activates`` is the number of the input that the activation is applied to; None: the result.
    """

    function: str
    arithmetic: ElementType
    a: float = 0.0
    b: float = 0.0
    epsilon: float = 0.0
    activation: Activation | None = None
    activates: int | None = None

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
        applied, numbers = activated(self.activation, self.arithmetic)
        macros |= applied
        if applied and self.function != "ACTIVATION":
            macros[f"ACTIVATES_{'RESULT' if self.activates is None else self.activates}"] = 1
        count, parts = walk.elements, 1
        if not vectors:
            four = neighbours(walk) if self.arithmetic is ElementType.FLOAT32 else 1
            count = walk.rows * -(-walk.length // four)
            under_way = _UNDER_WAY * (2 if four == 8 else 1)  # as many bytes of narrow numbers
            parts = min(under_way // (four * max(len(inputs), 1)) or 1, _MOST_PARTS)
            group = grid(1, target)[1][0]
            if count < parts * group * target.compute_units:
                parts = 1
            macros |= {"FOUR": four, "TAIL": bool(walk.length % four), "PER_ITEM": parts}
            macros |= {"GROUP": group, "INDEX": index_type(count)}
        elif self.arithmetic is ElementType.FLOAT32 and _are_lines(walk):
            macros |= streamed(result.dtype, walk.elements, target)
        division = Division.of(walk.rows, walk.length, target)
        arguments = (
            *(argument for view in walk.views for argument in arguments_of(view)),
            *row_sizes(walk.sizes),
            i32(walk.length),
            i64(count),
            i64(division.rows),
            i64(division.columns),
            *(number(value, self.arithmetic) for value in (self.a, self.b, self.epsilon)),
            *numbers,
        )
        sizes = (division.global_size, (1, 1)) if vectors else grid(-(-count // parts), target)
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


def _are_lines(walk: Walk) -> bool:
    """Return whether rows of the result are whole cache lines, or long enough to begin at one."""
    result = walk.views[-1]
    places = (walk.length, result.start, *result.steps[:-1])
    is_long = walk.length >= _LEAST_STREAMED or not any(place % _LINE for place in places)
    return result.steps[-1] == 1 and is_long
