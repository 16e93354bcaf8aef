"""Models that are damaged, hostile or open: one line in convfind's words, and nothing lost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from networks_for_tests import LIGHT_MODELS, onnx_model
from onnx import TensorProto, helper

from convfind.errors import ConvfindError
from convfind_networks import BindingError, ModelFormatError, Network, UnsupportedError, evaluate

SQUEEZENET = next(path for path in LIGHT_MODELS if "squeezenet" in path.stem)


def relu() -> onnx.ModelProto:
    return onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("batch", 3)})


def one_line(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    return text


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"nothing\.onnx cannot be read: No such file"):
        Network.from_onnx(tmp_path / "nothing.onnx")


@pytest.mark.parametrize("data", [b"", b"no model", b"\x00" * 100, b"\xff" * 100], ids=repr)
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(ModelFormatError) as caught:
        Network.from_onnx(data)
    one_line(caught.value)


def test_random_damage_is_one_line_and_never_another_error() -> None:
    whole = SQUEEZENET.read_bytes()
    draw = random.Random(0)
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        try:
            Network.from_onnx(bytes(data)).optimized()
        except ConvfindError as error:
            one_line(error)
            refused += 1
    assert refused > 50


def test_names_that_are_no_text_are_one_line() -> None:
    whole = relu().SerializeToString()
    for name in (b"x", b"y", b"Relu", b"batch"):
        data = whole.replace(name, b"\xff" * len(name))
        assert data != whole
        with pytest.raises(ConvfindError) as caught:
            Network.from_onnx(data).graph({"batch": 1})
        one_line(caught.value)


def test_a_model_against_onnx_rules_is_refused() -> None:
    model = relu()
    model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ModelFormatError, match="breaks ONNX's rules"):
        Network.from_onnx(model)


def test_a_value_that_nobody_computes_is_refused() -> None:
    model = relu()
    model.graph.node[0].input[0] = "missing"
    with pytest.raises(ModelFormatError, match="breaks ONNX's rules"):
        Network.from_onnx(model)


@pytest.mark.parametrize(
    ("node", "weights"),
    [
        (helper.make_node("Conv", ["x", "w"], ["y"], strides=[0, 1]), {"w": (4, 3, 1, 1)}),
        (helper.make_node("Conv", ["x", "w"], ["y"], strides=[1]), {"w": (4, 3, 1, 1)}),
        (helper.make_node("Conv", ["x", "w"], ["y"], pads=[-1, 0, 0, 0]), {"w": (4, 3, 1, 1)}),
        (helper.make_node("Conv", ["x", "w"], ["y"], group=2), {"w": (4, 3, 1, 1)}),
        (helper.make_node("Conv", ["x", "w"], ["y"], group=0), {"w": (4, 3, 1, 1)}),
        (helper.make_node("Conv", ["x", "w"], ["y"]), {"w": (4, 3, 9, 9)}),
        (helper.make_node("Conv", ["x", "w"], ["y"]), {"w": (4, 3)}),
        (helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[0, 0]), {"w": (3, 1, 1, 1)}),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[0, 0]), {}),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2]), {}),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[9, 9]), {}),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0, 1, 2]), {}),
        (helper.make_node("Concat", ["x", "w"], ["y"], axis=0), {"w": (1, 2)}),
        (helper.make_node("Concat", ["x"], ["y"], axis=9), {}),
        (helper.make_node("Gemm", ["x", "w"], ["y"]), {"w": (4, 3)}),
        (helper.make_node("LRN", ["x"], ["y"], size=0), {}),
        (helper.make_node("Add", ["x", "w"], ["y"]), {"w": (7, 5)}),
        (helper.make_node("BatchNormalization", ["x", *"wwww"], ["y"]), {"w": (7,)}),
        (helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=0), {}),
    ],
    ids=lambda one: getattr(one, "op_type", None),
)
def test_impossible_nodes_are_one_line(node: Any, weights: dict[str, tuple[int, ...]]) -> None:
    arrays = {name: np.zeros(shape, np.float32) for name, shape in weights.items()}
    model = onnx_model([node], {"x": (1, 3, 5, 5)}, weights=arrays)
    with pytest.raises((ModelFormatError, UnsupportedError)) as caught:
        Network.from_onnx(model).graph()
    one_line(caught.value)


@pytest.mark.parametrize("size", [2**62, -5])
def test_sizes_beyond_all_memory_allocate_nothing(size: int) -> None:
    shape = np.asarray([size, 2])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["large"]),
        helper.make_node("Add", ["x", "large"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (1, 2)}, weights={"shape": shape})
    with pytest.raises((ModelFormatError, UnsupportedError)) as caught:
        Network.from_onnx(model).graph()
    one_line(caught.value)


def test_large_constants_of_one_number_take_no_memory() -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["large"]),
        helper.make_node("Add", ["x", "large"], ["y"]),
    ]
    weights = {"shape": np.asarray([2**20, 2**18])}
    graph = Network.from_onnx(onnx_model(nodes, {"x": (1, 1)}, weights=weights)).graph()
    assert [graph.values[name].shape for name in graph.outputs.values()] == [(2**20, 2**18)]


def test_a_function_that_calls_itself_ends() -> None:
    body = helper.make_node("Again", ["a"], ["b"], domain="own")
    function = helper.make_function(
        *("own", "Again", ["a"], ["b"], [body]),
        opset_imports=[helper.make_opsetid("own", 1)],
    )
    model = onnx_model([helper.make_node("Again", ["x"], ["y"], domain="own")], {"x": (1,)})
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(function)
    with pytest.raises(ConvfindError) as caught:
        Network.from_onnx(model).graph()
    one_line(caught.value)


def test_functions_that_multiply_end() -> None:
    def calls(name: str) -> list[Any]:
        return [helper.make_node(name, ["a"], [f"b{at}"], domain="own") for at in range(30)]

    model = onnx_model([helper.make_node("F8", ["x"], ["y"], domain="own")], {"x": (1,)})
    own = helper.make_opsetid("own", 1)
    model.opset_import.append(own)
    opsets = [own, helper.make_opsetid("", 20)]
    last = helper.make_node("Neg", ["a"], ["b0"])
    for level in range(9):
        body = calls(f"F{level - 1}") if level else [last]
        model.functions.append(
            helper.make_function("own", f"F{level}", ["a"], ["b0"], body, opset_imports=opsets)
        )
    with pytest.raises(ModelFormatError, match="more than 50,000 nodes"):
        Network.from_onnx(model).graph()


def test_local_functions_are_expanded_with_their_attributes() -> None:
    attribute = onnx.AttributeProto(
        name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT
    )
    body = helper.make_node("LeakyRelu", ["a"], ["b"])
    body.attribute.append(attribute)
    function = helper.make_function(
        *("own", "Bent", ["a"], ["b"], [body]),
        opset_imports=[helper.make_opsetid("", 20)],
        attributes=["slope"],
    )
    call = helper.make_node("Bent", ["x"], ["y"], domain="own", slope=0.25)
    model = onnx_model([call], {"x": (2,)})
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(function)
    result = evaluate(Network.from_onnx(model).graph(), {"x": np.asarray([-2.0, 3.0])})
    np.testing.assert_array_equal(result["y"], [-0.5, 3.0])


# -- external data --------------------------------------------------------------------------------


def external(folder: Path, location: str, **entries: str) -> Path:
    """Write a model whose weights are in another file; return its path."""
    data = np.arange(6, dtype=np.float32)
    (folder / "data.bin").write_bytes(b"\0" * 4096 + data.tobytes())
    model = onnx_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (1, 6)})
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[6])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "4096", "length": "24", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_are_mapped(tmp_path: Path) -> None:
    graph = Network.from_onnx(external(tmp_path, "data.bin")).graph()
    result = evaluate(graph, {"x": np.zeros((1, 6))})
    np.testing.assert_array_equal(result["y"], [[0, 1, 2, 3, 4, 5]])


@pytest.mark.parametrize("location", ["../data.bin", "/etc/passwd", "a/../../data.bin", "link"])
def test_external_data_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "data.bin").write_bytes(b"\0" * 8192)
    (folder / "link").symlink_to(tmp_path / "data.bin")
    network = Network.from_onnx(external(folder, location))
    with pytest.raises(ModelFormatError, match="outside the model's folder"):
        network.graph()


@pytest.mark.parametrize(
    "entries",
    [{"length": "23"}, {"offset": "-4"}, {"offset": "9999"}, {"offset": "x"}, {"location": "no"}],
    ids=str,
)
def test_external_data_of_another_size_are_refused(tmp_path: Path, entries: dict[str, str]) -> None:
    network = Network.from_onnx(external(tmp_path, **{"location": "data.bin", **entries}))
    with pytest.raises(ModelFormatError) as caught:
        network.graph()
    one_line(caught.value)


def test_external_data_of_a_model_without_a_path_are_refused(tmp_path: Path) -> None:
    model = external(tmp_path, "data.bin").read_bytes()
    with pytest.raises(ModelFormatError, match="give the model's path"):
        Network.from_onnx(model).graph()


# -- what is open ---------------------------------------------------------------------------------


def test_an_open_size_is_asked_for_by_name() -> None:
    network = Network.from_onnx(relu())
    with pytest.raises(BindingError, match=r"in numbers, or batch=N$"):
        network.graph()
    for shapes in ({"batch": 4}, {"x": (4, 3)}):
        graph = network.graph(shapes)
        assert graph.values[graph.inputs[0]].shape == (4, 3)


@pytest.mark.parametrize(
    "shapes",
    [{"batch": 0}, {"batch": True}, {"x": (4,)}, {"x": (4, -1)}, {"z": 4}, {"x": (4, "n")}],
    ids=str,
)
def test_impossible_sizes_are_refused(shapes: dict[str, Any]) -> None:
    with pytest.raises(BindingError) as caught:
        Network.from_onnx(relu()).graph(shapes)
    one_line(caught.value)


def test_an_array_makes_an_input_constant() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    model = onnx_model(nodes, {"x": (2, 3), "shape": (1,)})
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    network = Network.from_onnx(model)
    with pytest.raises(UnsupportedError, match="shape is computed; it has to be constant"):
        network.graph()
    graph = network.graph({"shape": np.asarray([6])})
    assert graph.inputs == ("x",)
    assert graph.values[graph.outputs["y"]].shape == (6,)


def test_everything_that_is_not_supported_is_listed_at_once() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], name="first"),
        helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT),
        helper.make_node("Det", ["x"], ["c"], name="second"),
        helper.make_node("Add", ["b", "c"], ["y"]),
        helper.make_node("MaxPool", ["x"], ["z"], kernel_shape=[1, 1], name="third"),
    ]
    model = onnx_model(nodes[:-1], {"x": (2, 3)})
    with pytest.raises(UnsupportedError) as caught:
        Network.from_onnx(model).graph()
    assert [(one.operator, one.node) for one in caught.value.unsupported] == [
        *(("NonZero", "first"), ("Det", "second"))
    ]
    assert "depends on data" in one_line(caught.value)
