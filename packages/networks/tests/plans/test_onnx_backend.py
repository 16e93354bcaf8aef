"""ONNX's backend interface: node tests on a device are right, or refused with a reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from node_cases_for_tests import cases, operator_of, outcome

from convfind.handle import Handle
from convfind_networks import Network
from convfind_networks.errors import BindingError
from convfind_networks.onnx_backend import ConvfindBackend, PreparedModel

Array = np.ndarray[Any, Any]

#: Operators all of whose node tests have to run: the convolution family and its neighbours.
ALL_OF = {
    *("Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv"),
    *("DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearMatMul"),
    *("MaxPool", "MaxUnpool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"),
    *("InstanceNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization"),
}
#: What has no types, sizes or contents that devices know.
REFUSED = re.compile(
    r"training_mode|texts|no type of numbers|depends on data|no tensor of numbers|it is random"
    r"|is a sequence|opset 8"
    r"|(float8|float4|int4|int2)\S* tensors|'(float8|float4|u?int4|u?int2)\S*' is not possible"
)


#: Operators that nothing computes on a device yet.
NOT_HERE = {
    *("Adagrad", "Adam", "Momentum", "ArrayFeatureExtractor", "Binarizer", "TreeEnsemble"),
    *("ImageDecoder", "BitCast", "Det"),
}


def prepared(handle: Handle, model: Any) -> PreparedModel:
    # What is compared are the last digits: node tests expect errors of plain sums.
    policy = {"on_miss": "estimate", "accuracy": "strict"}
    return PreparedModel(Network.from_onnx(model), handle, policy)


@pytest.mark.slow
def test_node_tests_of_every_operator_are_right_on_a_device_or_refused(handle: Handle) -> None:
    def run(model: Any, inputs: Sequence[Array]) -> Sequence[Array]:
        return prepared(handle, model).run(inputs)

    seen, passed = set[str](), set[str]()
    wrong, refused = dict[str, str](), dict[str, str]()
    for case in cases():
        operator = operator_of(case)
        if not operator or (operator in seen and operator not in ALL_OF):
            continue  # compiling takes long: one of each is enough
        seen.add(operator)
        found = outcome(case, run)
        if found.wrong:
            wrong[case.name] = found.wrong
        elif found.unsupported:
            refused.setdefault(operator, found.unsupported)
        else:
            passed.add(operator)
    assert not wrong
    assert not ALL_OF & refused.keys()
    assert {one for one in refused if not REFUSED.search(refused[one])} == NOT_HERE
    assert len(passed) >= 160


def test_a_prepared_model_runs_with_inputs_by_order_and_by_name(handle: Handle) -> None:
    model = _reshaped()
    x, shape = np.arange(6, dtype=np.float32), np.asarray([2, 3])
    by_order, by_name = prepared(handle, model).run([x, shape]), {"x": x, "shape": shape}
    np.testing.assert_array_equal(by_order[0], x.reshape(2, 3))
    np.testing.assert_array_equal(prepared(handle, model).run(by_name)[0], x.reshape(2, 3))
    with pytest.raises(BindingError, match="1 inputs for 2 of the model"):
        prepared(handle, model).run([x])


def test_what_a_model_reads_as_a_shape_may_change_from_run_to_run(handle: Handle) -> None:
    ready = prepared(handle, _reshaped())
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, 2], [2, 3]):
        assert ready.run([x, np.asarray(shape)])[0].shape == tuple(shape)


def test_a_tensor_without_elements_comes_and_goes_through(handle: Handle) -> None:
    sizes = onnx.helper.make_tensor("sizes", onnx.TensorProto.INT64, [2], [3, 0])
    split = onnx.helper.make_node("Split", ["x", "sizes"], ["a", "b"], axis=1)
    model = _model([split], {"x": [2, 3]}, {"a": [2, 3], "b": [2, 0]}, [sizes])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    a, b = prepared(handle, model).run([x])
    np.testing.assert_array_equal(a, x)
    assert b.shape == (2, 0)


def test_the_backend_knows_its_devices() -> None:
    assert ConvfindBackend.supports_device("CPU")
    assert not ConvfindBackend.supports_device("TPU")


def _reshaped() -> Any:
    node = onnx.helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = _model([node], {"x": [6]}, {"y": [None, None]})
    shape = onnx.helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, [2])
    model.graph.input.append(shape)
    return model


def _model(
    nodes: Sequence[Any], inputs: Any, outputs: Any, initializers: Sequence[Any] = ()
) -> Any:
    read, written = (
        [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
            for name, shape in some.items()
        ]
        for some in (inputs, outputs)
    )
    graph = onnx.helper.make_graph(list(nodes), "model", read, written, list(initializers))
    opsets = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=opsets)
