"""Operators that are functions of others: those of the model, and those of ONNX's own schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from convfind_networks.from_onnx.sequence import Imported, ValueSequence
from convfind_networks.importing import NotSupported

#: Functions within functions: a model in which one calls itself would never end.
DEEPEST = 16


#: Functions of a model, by domain and name.
Functions = Mapping[tuple[str, str], Any]


def is_function(proto: Any, opsets: Mapping[str, int], own: Functions) -> bool:
    """Tell whether an operator is made of others."""
    if (proto.domain, proto.op_type) in own:
        return True
    schema = _schema(proto, opsets)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def function_of(
    proto: Any, inputs: Sequence[Imported | None], opsets: Mapping[str, int], own: Functions
) -> Any:
    """Return the function that an operator stands for.

    Raises:
        NotSupported: ONNX does not spell it for inputs of these types.
    """
    local = own.get((proto.domain, proto.op_type))
    if local is not None:
        return local
    schema = _schema(proto, opsets)
    if schema.has_function:
        return schema.function_body
    types = [_type(value) for value in inputs]
    text = schema.get_context_dependent_function(proto.SerializeToString(), types)
    if not text:
        raise NotSupported("ONNX does not spell it for these inputs")
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    return function


def _schema(proto: Any, opsets: Mapping[str, int]) -> Any:
    try:
        version = opsets.get(proto.domain, 1)
        return onnx.defs.get_schema(proto.op_type, version, domain=proto.domain)
    except onnx.defs.SchemaError:
        return None


def _type(value: Imported | None) -> bytes:
    kind = onnx.TypeProto() if value is None else _proto_of(value)
    return bytes(kind.SerializeToString())


def _proto_of(value: Imported) -> Any:
    if isinstance(value, ValueSequence):
        if not value.values:
            raise NotSupported("an empty sequence")
        return onnx.helper.make_sequence_type_proto(_proto_of(value.values[0]))
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return onnx.helper.make_tensor_type_proto(number, value.shape)


def attributes_of(call: Any, function: Any, opsets: Mapping[str, int]) -> Mapping[str, Any]:
    """Return the attributes of a call by name, with what is usual where it does not say."""
    schema = _schema(call, opsets)
    usual = {} if schema is None else schema.attributes
    given = {name: one.default_value for name, one in usual.items() if one.default_value.type}
    given.update({one.name: one for one in function.attribute_proto})
    given.update({one.name: one for one in call.attribute})
    return given


def with_attributes(body: Any, given: Mapping[str, Any]) -> Any:
    """Return a node of a function's body with the attributes of the call in their places."""
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
