"""Constants, identities, duplicates, dead code and canonical forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from networks_for_tests import assert_same_results, graph_of

from convfind_networks import Graph, GraphBuilder, Node, Value
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    Binary,
    BinaryFunction,
    ChannelShuffle,
    Concat,
    Expand,
    GlobalPool,
    GroupNorm,
    Identity,
    Linear,
    MatMul,
    Op,
    Pad,
    PadMode,
    PoolKind,
    Reduce,
    ReduceFunction,
    Reshape,
    Slice,
    Split,
    Transpose,
    Where,
)
from convfind_networks.passes import (
    canonicalize,
    fold_constants,
    merge_duplicates,
    optimize,
    remove_dead_code,
    remove_identities,
)

TANH = Activate(Activation(ActivationKind.TANH))
X = (2, 3, 4)


@pytest.mark.parametrize(
    "op",
    [
        Identity(),
        Reshape(X),
        Transpose((0, 1, 2)),
        Expand(X),
        Slice.of(X, {}),
        Concat(1),
        Pad((0, 0, 0), (0, 0, 0)),
    ],
    ids=str,
)
def test_what_changes_nothing_is_removed(op: Op) -> None:
    graph = graph_of(lambda b, x: b.add(TANH, b.add(op, b.add(TANH, x))), X)
    result = remove_identities(graph)
    assert_same_results(graph, result)
    assert [node.op for node in result.nodes] == [TANH, TANH]


@pytest.mark.parametrize("mode", PadMode)
def test_a_padding_that_cuts_off_as_much_as_it_adds_stays(mode: PadMode) -> None:
    op = Pad((0, -1, 2), (0, 1, -2), mode)
    graph = graph_of(lambda b, x: b.add(op, b.add(TANH, x)), X)
    result = optimize(graph)
    assert_same_results(graph, result)
    assert [node.op for node in result.nodes] == [TANH, op]


def test_an_output_may_be_an_input_or_another_output() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        y = b.add(TANH, x)
        return {"x": b.add(Identity(), x), "y": y, "z": b.add(Identity(), y)}

    graph = graph_of(make, X)
    result = optimize(graph)
    assert_same_results(graph, result)
    assert len(result.nodes) == 1


@pytest.mark.parametrize("op", [Binary(BinaryFunction.DIV), Where()], ids=str)
def test_what_repeats_its_operands_itself_reads_them_as_they_are(op: Op) -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        repeated = b.add(Expand(X), b.add(Reduce(ReduceFunction.L2, (2,)), x))
        if isinstance(op, Where):
            return b.add(op, b.add(Binary(BinaryFunction.LESS), x, repeated), x, repeated)
        return b.add(op, x, repeated)

    graph = graph_of(make, X)
    result = remove_dead_code(remove_identities(graph))
    assert_same_results(graph, result)
    assert not any(isinstance(node.op, Expand) for node in result.nodes)


def test_repeated_operands_stay_where_the_result_has_their_shape() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        lengths = b.add(Reduce(ReduceFunction.L2, (2,)), x)
        repeated = b.add(Expand(X), lengths)
        return b.add(Binary(BinaryFunction.ADD), repeated, lengths)

    graph = graph_of(make, X)
    result = remove_identities(graph)
    assert_same_results(graph, result)
    assert sum(isinstance(node.op, Expand) for node in result.nodes) == 1


def test_reversing_slices_stay() -> None:
    backwards = Slice.of(X, {1: slice(None, None, -1)})
    graph = graph_of(lambda b, x: b.add(backwards, x), X)
    assert len(remove_identities(graph).nodes) == 1


def test_transposes_and_reshapes_in_a_row_are_one_or_none() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        turned = b.add(Transpose((1, 2, 0)), b.add(TANH, x))
        flat = b.add(Reshape((24,)), b.add(Reshape((6, 4)), x))
        return {"back": b.add(Transpose((2, 0, 1)), turned), "flat": flat}

    graph = graph_of(make, X)
    result = remove_dead_code(remove_identities(graph))
    assert_same_results(graph, result)
    assert sorted(node.op.kind for node in result.nodes) == ["Activate", "Reshape"]


def test_equal_operations_run_once() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        def once() -> Value:
            return b.add(Binary(BinaryFunction.ADD), b.add(TANH, x), b.constant(2, np.float32))

        return b.add(Binary(BinaryFunction.MUL), once(), once())

    graph = graph_of(make, X)
    result = merge_duplicates(graph)
    assert_same_results(graph, result)
    assert [node.op.kind for node in result.nodes] == ["Activate", "Binary", "Binary"]


def test_what_has_several_results_may_read_an_identity_or_a_duplicate() -> None:
    def make(b: GraphBuilder, x: Value) -> dict[str, Value]:
        first, second = b.add(TANH, x), b.add(TANH, x)
        pieces = b.add_all(Split(2, (1, 3)), b.add(Identity(), first))
        others = b.add_all(Split(1, (1, 2)), second)
        return {f"y{at}": b.add(TANH, one) for at, one in enumerate((*pieces, *others))}

    graph = graph_of(make, X)
    for clean in (remove_identities, merge_duplicates, optimize):
        assert_same_results(graph, clean(graph))
    assert [node.op.kind for node in optimize(graph).nodes].count("Activate") == 5


def test_operations_on_other_constants_stay_apart() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        one, two = (b.add(Binary(BinaryFunction.ADD), x, b.constant(n, np.float32)) for n in (1, 2))
        return b.add(Binary(BinaryFunction.MUL), one, two)

    graph = graph_of(make, X)
    assert len(merge_duplicates(graph).nodes) == 3


def test_what_no_output_needs_is_removed_with_its_constants() -> None:
    def make(b: GraphBuilder, x: Value) -> Value:
        b.add(Binary(BinaryFunction.ADD), x, b.constant(np.ones(4), np.float32, name="unread"))
        first, _ = b.add_all(Split(2, (1, 3)), x)
        return first

    result = remove_dead_code(graph_of(make, X))
    assert [node.op.kind for node in result.nodes] == ["Split"]
    assert "unread" not in result.values


def test_constants_are_computed_in_float64_and_rounded_once() -> None:
    third = np.float32(1 / 3)
    with_node = Graph(
        ("x",),
        {"y": "y"},
        (
            Node(Binary(BinaryFunction.MUL), ("a", "a"), ("b",)),
            Node(Binary(BinaryFunction.ADD), ("x", "b"), ("y",)),
        ),
        {
            **{v.name: v for v in (Value.constant("a", np.full(2, third)),)},
            **{n: Value(n, Value.constant(n, np.zeros(2, np.float32)).type) for n in "xby"},
        },
    )
    result = fold_constants(with_node)
    assert_same_results(with_node, result)
    (node,) = result.nodes
    (data,) = [result.values[n].data for n in node.inputs if result.values[n].is_constant]
    assert data is not None
    assert data.dtype == np.float32
    assert data[0] == np.float32(np.float64(third) ** 2)


def test_products_with_constant_matrices_are_linear_layers() -> None:
    w = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    graph = graph_of(lambda b, x: b.add(MatMul(), x, b.constant(w)), X)
    result = canonicalize(graph)
    assert_same_results(graph, result)
    assert [node.op for node in result.nodes] == [Linear()]


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize(
    ("function", "kind"),
    [(ReduceFunction.MEAN, PoolKind.AVERAGE), (ReduceFunction.MAX, PoolKind.MAX)],
)
def test_reductions_of_the_image_are_global_pools(
    function: ReduceFunction, kind: PoolKind, keepdims: bool
) -> None:
    graph = graph_of(lambda b, x: b.add(Reduce(function, (2, 3), keepdims), x), (2, 3, 4, 5))
    result = canonicalize(graph)
    assert_same_results(graph, result)
    assert result.nodes[0].op == GlobalPool(kind)
    assert len(result.nodes) == (1 if keepdims else 2)


def shuffled(b: GraphBuilder, x: Value, groups: int, order: tuple[int, ...]) -> Value:
    n, c, h, w = x.shape
    wide = b.add(Reshape((n, groups, c // groups, h, w)), x)
    return b.add(Reshape(x.shape), b.add(Transpose(order), wide))


def test_shuffled_channels_are_one_operation() -> None:
    graph = graph_of(lambda b, x: shuffled(b, x, 3, (0, 2, 1, 3, 4)), (2, 12, 3, 4))
    result = remove_dead_code(canonicalize(graph))
    assert_same_results(graph, result)
    assert [node.op for node in result.nodes] == [ChannelShuffle(3)]


def normed(b: GraphBuilder, x: Value, groups: int, shape: tuple[int, ...]) -> Value:
    scale, bias = (b.constant(np.arange(groups) + at, np.float32) for at in (1, 2))
    wide = b.add(Reshape((x.shape[0], groups, math.prod(x.shape[1:]) // groups)), x)
    return b.add(Reshape(shape), b.add(GroupNorm(groups, 1e-3), wide, scale, bias))


@pytest.mark.parametrize("groups", [1, 3])
def test_groups_that_are_normalized_as_channels_are_one_norm(groups: int) -> None:
    shape = (2, 12, 3, 4)
    graph = graph_of(lambda b, x: normed(b, x, groups, shape), shape)
    result = remove_dead_code(canonicalize(graph))
    assert_same_results(graph, result)
    assert [node.op for node in result.nodes] == [GroupNorm(groups, 1e-3)]


@pytest.mark.parametrize(("groups", "shape"), [(9, (2, 12, 3, 3)), (3, (2, 6, 6, 3))])
def test_norms_of_other_groups_and_shapes_stay(groups: int, shape: tuple[int, ...]) -> None:
    graph = graph_of(lambda b, x: normed(b, x, groups, shape), (2, 12, 3, 3))
    assert len(canonicalize(graph).nodes) == 3


def test_other_transposes_between_reshapes_stay() -> None:
    graph = graph_of(lambda b, x: shuffled(b, x, 4, (0, 1, 2, 4, 3)), (2, 8, 3, 3))
    assert len(canonicalize(graph).nodes) == 3


def test_other_reductions_stay() -> None:
    reduce = Reduce(ReduceFunction.MEAN, (1, 2))
    graph = graph_of(lambda b, x: b.add(reduce, x), (2, 3, 4, 5))
    assert [node.op for node in canonicalize(graph).nodes] == [reduce]
