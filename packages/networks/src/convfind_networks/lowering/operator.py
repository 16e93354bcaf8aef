"""`operator`: a call of a problem type that another package brings, by the word of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from convfind_networks.errors import GraphError
from convfind_networks.graph import Node
from convfind_networks.layouts import packed_strides
from convfind_networks.lowering.call import Call, Surroundings


def operator(
    around: Surroundings, node: Node, kind: str, operands: Mapping[str, str], **fields: Any
) -> Call:
    """Return the call of an operator.

    Args:
        around: the graph, and where problem types are found.
        node: the node that it computes.
        kind: the word of the problem type.
        operands: the value that each operand is; the first is of the operator's element type.
        **fields: what else the problem type takes.

    Raises:
        GraphError: nobody brings the problem type, or values are not of its operands' types.
        ProblemError: it does not take these fields.
    """
    make = around.problem_type(kind)
    first = next(iter(operands.values()))
    fields = {"dtype": around.type(first).dtype.name, **fields}
    fields.setdefault("channels_last", around.is_last(node.output))
    problem = make(**fields)
    for operand in problem.operands:
        given = around.type(operands[operand.name])
        if (given.dtype.name, given.elements) != (operand.dtype.value, operand.elements):
            raise GraphError(f"{operand.name} of {given} is not what {problem} takes")
    strides = {name: steps for name, steps in _strides(around, problem, operands)}
    if strides:
        problem = make(**fields, strides=strides)
    return Call(node, problem, dict(operands))


def _strides(around: Surroundings, problem: Any, operands: Mapping[str, str]) -> Any:
    """Yield the strides of values that lie otherwise than their operand would."""
    for operand in problem.operands:
        value = operands[operand.name]
        if around.is_constant(value):
            continue
        packed = packed_strides(operand.shape, channels_last=around.is_last(value))
        steps = around.laid_out.own_strides(value) or packed
        if steps != operand.strides:
            yield operand.name, steps
