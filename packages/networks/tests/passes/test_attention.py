"""Attention becomes one operation, however models spell it, and computes what PyTorch computes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from networks_for_tests import assert_same_results, exported
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F

from convfind_networks import Graph, GraphBuilder, Network, TensorType, evaluate
from convfind_networks.ops import Attention, MatMul, Softmax, Transpose, Where
from convfind_networks.passes import fuse_attention

# PyTorch warns of itself while it exports.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

WIDTH, HEADS, LENGTH = 64, 2, 7
Attending = Callable[..., Tensor]


class Layer(nn.Module):
    """A layer of heads, whose queries, keys and values are parts of one product."""

    def __init__(self, attend: Attending) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.randn(1, HEADS, LENGTH, LENGTH))
        self.attend = attend

    def forward(self, x: Tensor, *masks: Tensor) -> Tensor:
        qkv = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = self.attend(self, *qkv.unbind(0), *masks)
        found: Tensor = x + self.out(y.transpose(1, 2).flatten(2))
        return found


class Encoder(nn.Module):
    """PyTorch's own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y


def spelled_out(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q * 0.3) @ k.transpose(2, 3) + layer.bias
    return scores.softmax(3) @ v


def divided(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = layer.bias + q @ k.transpose(2, 3) / math.sqrt(32)
    return F.softmax(scores, 3, dtype=torch.float32).to(q.dtype) @ v


def before(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def at_once(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2))
    return torch.bmm(scores.softmax(2), v.flatten(0, 1)).view(q.shape)


def masked(layer: Layer, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.2)


def shared(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k[:, :1], v[:, 1:], enable_gqa=True)


SEEN = torch.rand(3, 1, LENGTH, LENGTH, generator=torch.Generator().manual_seed(1)) > 0.4
SEEN[1, 0, 2] = False  # it sees nothing
SPELLINGS: dict[str, tuple[Attending, tuple[Tensor, ...]]] = {
    "spelled out": (spelled_out, ()),
    "divided": (divided, ()),
    "causal": (before, ()),
    "shown": (masked, (SEEN,)),
    "hidden": (masked, (torch.where(SEEN, 0.5, -math.inf),)),
    "biased": (masked, (torch.randn(LENGTH, LENGTH),)),
    "shared": (shared, ()),
}


def fused(graph: Graph) -> Graph:
    """Return the graph with every attention as one operation."""
    return fuse_attention(graph, lambda op, types: True)


def kinds(graph: Graph) -> Counter[str]:
    """Count the operations that compute something, by kind."""
    return Counter(node.op.kind for node in graph.nodes if not node.op.is_view)


def check(module: nn.Module, *inputs: Tensor) -> Graph:
    """Hold a module's fused graph to what PyTorch computes in float64."""
    torch.manual_seed(2)
    graph = Network.from_torch(exported(module, *inputs)).optimized()
    found = fused(graph)
    values = dict(zip(graph.inputs, (one.numpy() for one in inputs), strict=True))
    (y,) = evaluate(found, values).values()
    wide = (one.double() if one.is_floating_point() else one for one in inputs)
    with torch.no_grad():
        right = module.double()(*wide).numpy()
    np.testing.assert_allclose(y, right, atol=3e-7)
    return found


@pytest.mark.parametrize(("attend", "masks"), SPELLINGS.values(), ids=SPELLINGS)
def test_heads_are_read_and_written_where_they_lie(
    attend: Attending, masks: tuple[Tensor, ...]
) -> None:
    graph = check(Layer(attend), torch.randn(3, LENGTH, WIDTH), *masks)
    assert kinds(graph) == {"Attention": 1, "Linear": 2}


def cosines(layer: Layer, q: Tensor, k: Tensor) -> Tensor:
    return F.normalize(q, dim=3) @ F.normalize(k, dim=3).transpose(2, 3)


def scaled(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    of_heads, of_queries = layer.bias[:, :, :1, :1].exp(), layer.bias[:, :, :, 1:2]
    scores = cosines(layer, q, k) * of_heads * of_queries + layer.bias
    return scores.softmax(3) @ v


def scaled_behind(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((cosines(layer, q, k) + layer.bias) * layer.bias[:, :, :, :1]).softmax(3) @ v


def scaled_keys(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (cosines(layer, q, k) * layer.bias[:, :, :1]).softmax(3) @ v


@pytest.mark.parametrize(("attend", "count"), [(scaled, 1), (scaled_behind, 0), (scaled_keys, 0)])
def test_queries_are_multiplied_by_what_scores_would_be(attend: Attending, count: int) -> None:
    found = kinds(check(Layer(attend), torch.randn(3, LENGTH, WIDTH)))
    assert found["Attention"] == count
    assert found["MatMul"] == 2 - 2 * count


def scaled_as_they_are(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(2, 3) * layer.bias[:, :, :1, :1]).softmax(3) @ v


def scaled_beyond(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    factors = layer.bias[:, :, :1, :1] * 0 + torch.tensor([[300.0]]).to(q.dtype)
    return (cosines(layer, q, k) * factors * (factors + layer.bias[:, :, :1, :1])).softmax(3) @ v


def scaled_by(*numbers: float) -> Attending:
    """Return cosines that are scaled by one number after the other."""

    def attend(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = cosines(layer, q, k)
        for number in numbers:
            scores = scores * (layer.bias[:, :, :1, :1] * 0 + number)
        return scores.softmax(3) @ v

    return attend


@pytest.mark.parametrize(
    ("attend", "count"),
    [
        (scaled, 1),
        (scaled_by(30, 40), 1),
        (scaled_by(0, 40), 1),
        (scaled_as_they_are, 0),
        (scaled_beyond, 0),
        (scaled_by(1e-3, 1e3, 1e3), 0),
        (scaled_by(2e-6, 1e4, 40), 0),
        (scaled_by(math.nan), 0),
    ],
)
def test_queries_in_float16_are_not_multiplied_beyond_its_range(
    attend: Attending, count: int
) -> None:
    torch.manual_seed(3)
    module, x = Layer(attend).half().eval(), torch.randn(3, LENGTH, WIDTH).half()
    graph = Network.from_torch(exported(module, x)).optimized()
    found = fused(graph)
    assert kinds(found)["Attention"] == count
    assert "Expand" not in kinds(found)
    (y,) = evaluate(found, dict(zip(graph.inputs, [x.numpy()], strict=True))).values()
    with torch.no_grad():
        right = module.double()(x.double()).numpy()
    np.testing.assert_allclose(y.astype(np.float64), right, atol=4e-3)


def test_products_of_a_batch_of_all_heads_are_one_operation() -> None:
    found = kinds(check(Layer(at_once), torch.randn(3, LENGTH, WIDTH)))
    assert found["Attention"] == 1  # what it reads has no one step from head to head, and is copied
    assert "MatMul" not in found


def test_pytorchs_own_layer_keeps_no_copy_of_heads() -> None:
    graph = check(Encoder(), torch.randn(3, LENGTH, WIDTH))
    assert {"Attention": 1, "Linear": 4, "LayerNorm": 2}.items() <= kinds(graph).items()


def test_what_else_reads_scores_or_weights_keeps_them() -> None:
    def with_weights(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.transpose(2, 3)).softmax(3)
        return weights @ v + weights.mean(3, keepdim=True)

    def another_axis(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(2, 3)).softmax(2) @ v

    def half(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(2, 3)).relu().softmax(3) @ v

    def repeated(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k[:1].transpose(2, 3)).softmax(3) @ v[0]

    for attend in (with_weights, another_axis, half, repeated):
        graph = check(Layer(attend), torch.randn(3, LENGTH, WIDTH))
        assert "Attention" not in kinds(graph)
        assert kinds(graph)["MatMul"] == 2


PAST = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
LEFT = torch.zeros(3, 1, 1, LENGTH)
LEFT[1, ..., :2] = -math.inf  # its first queries see nothing before them
LEFT[2, ..., :3] = -1e9


def replaced(layer: Layer, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> Tensor:
    scores = torch.where(PAST, q @ k.transpose(2, 3), torch.tensor(-1e9))
    return (sum(masks, start=scores)).softmax(3) @ v


def added(layer: Layer, q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> Tensor:
    scores = q @ k.transpose(2, 3) + torch.where(PAST, 0.0, -1e9)
    return (sum(masks, start=scores)).softmax(3) @ v


@pytest.mark.parametrize("attend", [replaced, added])
def test_what_is_hidden_by_a_number_is_seen_where_another_mask_hides_all_else(
    attend: Attending,
) -> None:
    assert "Attention" not in kinds(check(Layer(attend), torch.randn(3, LENGTH, WIDTH), LEFT))
    assert kinds(check(Layer(attend), torch.randn(3, LENGTH, WIDTH)))["Attention"] == 1


@pytest.mark.parametrize(("hidden", "count"), [(-10000.0, 1), (-3e38, 0)])
def test_what_onnx_runtimes_masks_leave_is_seen_before_what_is_behind(
    hidden: float, count: int
) -> None:
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((4, 3 * WIDTH), np.float32)}
    attributes = {"num_heads": HEADS, "unidirectional": 1, "mask_filter_value": hidden}
    one = node("Attention", "x w _ m", "y", domain="com.microsoft", **attributes)
    one.input[2] = ""
    graph = onnx_graph([one], {"x": (2, LENGTH, 4), "m": (2, LENGTH)}, weights, com_microsoft=1)
    found = fused(graph)
    assert kinds(found)["Attention"] == count
    x = rng.standard_normal((2, LENGTH, 4))
    seen = np.ones((2, LENGTH), np.float32)
    seen[1, :3] = 0
    (y,), (right,) = (evaluate(one, {"x": x, "m": seen}).values() for one in (found, graph))
    np.testing.assert_allclose(y, right, rtol=1e-9)


def test_a_small_bias_beside_a_mask_leaves_it_one_operation() -> None:
    def with_bias(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return added(layer, q, k, v, layer.bias)

    assert kinds(check(Layer(with_bias), torch.randn(3, LENGTH, WIDTH)))["Attention"] == 1


IMAGES, WINDOWS = 2, 3
NEAR = torch.rand(WINDOWS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(3)) > 0.3
NEAR |= torch.eye(LENGTH, dtype=torch.bool)
FAR = torch.where(NEAR, 0.0, -100.0)


def windows(layer: Layer, q: Tensor, k: Tensor, v: Tensor, mask: Tensor = FAR) -> Tensor:
    return in_windows(q @ k.transpose(2, 3), lambda x: x + mask[None, :, None]) @ v


def biased_windows(layer: Layer, q: Tensor, k: Tensor, v: Tensor, mask: Tensor = FAR) -> Tensor:
    scores = q @ k.transpose(2, 3) / 2 + layer.bias
    return in_windows(scores, lambda x: x + mask[None, :, None]) @ v


def shown_windows(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(2, 3) + layer.bias
    return in_windows(scores, lambda x: torch.where(NEAR[:, None], x, -math.inf)) @ v


def images(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return in_windows(q @ k.transpose(2, 3), lambda x: x + FAR[:IMAGES, None, None]) @ v


def in_windows(scores: Tensor, mask: Callable[[Tensor], Tensor]) -> Tensor:
    """Return weights of scores that are masked window by window, of some images."""
    return mask(scores.view(IMAGES, WINDOWS, *scores.shape[1:])).view(scores.shape).softmax(3)


@pytest.mark.parametrize(
    ("attend", "masks", "shape"),
    [
        (windows, (), (WINDOWS, 1, LENGTH, LENGTH)),
        (windows, (FAR,), (WINDOWS, 1, LENGTH, LENGTH)),
        (biased_windows, (), (WINDOWS, HEADS, LENGTH, LENGTH)),
        (shown_windows, (), (WINDOWS, HEADS, LENGTH, LENGTH)),
    ],
)
def test_masks_of_windows_are_repeated_for_all_images(
    attend: Attending, masks: tuple[Tensor, ...], shape: tuple[int, ...]
) -> None:
    graph = check(Layer(attend), torch.randn(IMAGES * WINDOWS, LENGTH, WIDTH), *masks)
    (one,) = (node for node in graph.nodes if isinstance(node.op, Attention))
    assert graph.values[one.inputs[3]].shape == shape
    assert "MatMul" not in kinds(graph)


@pytest.mark.parametrize(("attend", "masks"), [(images, ()), (biased_windows, (FAR,))])
def test_masks_that_are_not_repeated_so_keep_the_products(
    attend: Attending, masks: tuple[Tensor, ...]
) -> None:
    graph = check(Layer(attend), torch.randn(IMAGES * WINDOWS, LENGTH, WIDTH), *masks)
    assert kinds(graph)["MatMul"] == 2


@pytest.mark.parametrize("sees", [True, False])
def test_weights_that_a_known_mask_takes_are_zeros(sees: bool) -> None:
    builder = GraphBuilder()
    q, k, v = (builder.input(one, TensorType(np.dtype(np.float32), (2, 3, 4))) for one in "qkv")
    seen, least = (builder.constant(np.full((3, 3), sees)), builder.constant(np.float32(-np.inf)))
    scores = builder.add(MatMul(), q, builder.add(Transpose((0, 2, 1)), k))
    weights = builder.add(Softmax(2), builder.add(Where(), seen, scores, least))
    shown = builder.add(Where(), seen, weights, builder.constant(np.float32(0)))
    graph = builder.graph({"y": builder.add(MatMul(), shown, v)})
    found = fused(graph)
    assert kinds(found) == {"Attention": 1}
    assert_same_results(graph, found)


def test_what_is_not_wanted_stays() -> None:
    module = Layer(spelled_out)
    graph = Network.from_torch(exported(module, torch.randn(3, LENGTH, WIDTH))).optimized()
    asked: list[Attention] = []

    def wanted(op: Attention, types: Any) -> bool:
        asked.append(op)
        return False

    kept = fuse_attention(graph, wanted)
    assert kinds(kept) == kinds(graph)
    (op,) = asked
    assert op.scale == pytest.approx(0.3)
    assert op.q.shape == (3, HEADS, LENGTH, WIDTH // HEADS)


# -- ONNX -------------------------------------------------------------------------------------


def onnx_graph(
    nodes: list[Any], inputs: dict[str, tuple[int, ...]], weights: dict[str, Any], **opsets: int
) -> Graph:
    """Return the optimized graph of nodes that compute y."""
    named = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(np.asarray(one), name) for name, one in weights.items()]
    graph = helper.make_graph(nodes, "attention", named, [y], held)
    known = [helper.make_opsetid(domain.replace("_", "."), one) for domain, one in opsets.items()]
    known.append(helper.make_opsetid("", 23))
    return Network.from_onnx(helper.make_model(graph, opset_imports=known)).optimized()


def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node; inputs are words."""
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def test_an_exported_block_is_one_operation_between_two_products() -> None:
    # As PyTorch's exporter spells it: each of q, k and v a product, keys transposed at once.
    rng = np.random.default_rng(3)
    weights: dict[str, Any] = {
        name: rng.standard_normal((WIDTH, WIDTH), np.float32) / 8 for name in ("q", "k", "v", "o")
    }
    weights |= {"heads": [0, 0, 2, 32], "flat": [0, 0, WIDTH], "root": np.float32(math.sqrt(32))}
    nodes = []
    for name in "qkv":
        nodes += [
            node("MatMul", f"x {name}", f"{name}1"),
            node("Reshape", f"{name}1 heads", name * 2),
        ]
    nodes += [
        node("Transpose", "qq", "q3", perm=[0, 2, 1, 3]),
        node("Transpose", "kk", "k3", perm=[0, 2, 3, 1]),
        node("Transpose", "vv", "v3", perm=[0, 2, 1, 3]),
        node("MatMul", "q3 k3", "scores"),
        node("Div", "scores root", "scaled"),
        node("Softmax", "scaled", "weights", axis=-1),
        node("MatMul", "weights v3", "found"),
        node("Transpose", "found", "behind", perm=[0, 2, 1, 3]),
        node("Reshape", "behind flat", "joined"),
        node("MatMul", "joined o", "y"),
    ]
    graph = onnx_graph(nodes, {"x": (3, LENGTH, WIDTH)}, weights)
    found = fused(graph)
    assert kinds(found) == {"Linear": 4, "Attention": 1}
    assert_same_results(graph, found, 1e-12)


_KEYS = (2, 4, 11, 32)
HEADS_OF: dict[str, tuple[int, ...]] = {"q": (2, 4, 9, 32), "k": _KEYS, "v": _KEYS}
ONNX: dict[str, tuple[str, dict[str, tuple[int, ...]], dict[str, Any]]] = {
    "plain": ("q k v", HEADS_OF, {}),
    "causal": ("q k v", HEADS_OF, {"is_causal": 1}),
    "biased": ("q k v m", {**HEADS_OF, "m": (2, 1, 9, 11)}, {"scale": 0.3}),
    "shared": (
        "q k v",
        {"q": (2, 9, 128), "k": (2, 11, 64), "v": (2, 11, 64)},
        {"q_num_heads": 4, "kv_num_heads": 2},
    ),
}


@pytest.mark.parametrize(("names", "shapes", "attributes"), ONNX.values(), ids=ONNX)
def test_onnxs_own_attention_is_one_operation(
    names: str, shapes: dict[str, tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    graph = onnx_graph([node("Attention", names, "y", **attributes)], shapes, {})
    found = fused(graph)
    assert kinds(found) == {"Attention": 1}
    assert_same_results(graph, found)


@pytest.mark.parametrize("causal", [0, 1])
def test_onnx_runtimes_attention_is_one_operation_behind_a_product(causal: int) -> None:
    rng = np.random.default_rng(4)
    weights = {
        "w": rng.standard_normal((WIDTH, 3 * WIDTH), np.float32) / 8,
        "b": rng.standard_normal(3 * WIDTH, np.float32),
    }
    attributes = {"num_heads": HEADS, "unidirectional": causal, "domain": "com.microsoft"}
    one = node("Attention", "x w b", "y", **attributes)
    graph = onnx_graph([one], {"x": (3, LENGTH, WIDTH)}, weights, com_microsoft=1)
    found = fused(graph)
    assert kinds(found) == {"Attention": 1, "Linear": 1}
    assert_same_results(graph, found)
