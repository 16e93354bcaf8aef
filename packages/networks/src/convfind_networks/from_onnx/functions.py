"""Operators that are functions of others: those of the model, and those of ONNX's own schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from convfind_networks.graph import Value

#: Functions within functions: a model in which one calls itself would never end.
DEEPEST = 16


def function_of(
    proto: Any,
    inputs: Sequence[Value | None],
    opsets: Mapping[str, int],
    own: Mapping[tuple[str, str], Any],
) -> Any:
    """Return the function that an operator stands for, None where it is not made of others."""
    local = own.get((proto.domain, proto.op_type))
    if local is not None:
        return local
    try:
        schema: Any = onnx.defs.get_schema(
            proto.op_type, opsets.get(proto.domain, 1), domain=proto.domain
        )
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function:
            return None
        text = schema.get_context_dependent_function(
            proto.SerializeToString(), [_type(value) for value in inputs]
        )
    except (onnx.defs.SchemaError, RuntimeError, ValueError):
        return None
    if not text:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    return function


def _type(value: Value | None) -> bytes:
    if value is None:
        return bytes(onnx.TypeProto().SerializeToString())
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    kind = onnx.helper.make_tensor_type_proto(number, value.shape)
    return bytes(kind.SerializeToString())


def with_attributes(body: Any, call: Any, function: Any) -> Any:
    """Return a node of a function's body with the attributes of the call in their places."""
    given = {one.name: one for one in function.attribute_proto}
    given.update({one.name: one for one in call.attribute})
    if not any(one.ref_attr_name for one in body.attribute):
        return body
    node = onnx.NodeProto()
    node.CopyFrom(body)
    del node.attribute[:]
    for one in body.attribute:
        if not one.ref_attr_name:
            node.attribute.append(one)
        elif one.ref_attr_name in given:
            node.attribute.append(given[one.ref_attr_name])
            node.attribute[-1].name = one.name
    return node
