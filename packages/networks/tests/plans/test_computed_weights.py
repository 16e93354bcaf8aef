"""Weights that are computed are read as they lie, beside data that are constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plans_for_tests import compiled

from convfind.handle import Handle
from convfind_networks import GraphBuilder, evaluate
from convfind_networks.graph import TensorType
from convfind_networks.ops import Convolution, Geometry


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("constant", ["x", "w", None])
@pytest.mark.parametrize(
    ("geometry", "x", "w"),
    [
        (Geometry.plain(1), (2, 4, 9), (3, 4, 2)),
        (Geometry.plain(2), (2, 8, 6, 5), (4, 8, 3, 3)),
        (replace(Geometry.plain(2), groups=2), (2, 8, 6, 5), (4, 4, 3, 3)),
        (replace(Geometry.plain(2), transposed=True), (2, 8, 6, 5), (8, 4, 3, 3)),
    ],
)
def test_one_of_both_is_constant(
    handle: Handle,
    geometry: Geometry,
    x: tuple[int, ...],
    w: tuple[int, ...],
    constant: str | None,
    channels_last: bool,
) -> None:
    builder, rng = GraphBuilder(), np.random.default_rng(0)
    given = {name: rng.standard_normal(shape, np.float32) for name, shape in (("x", x), ("w", w))}
    values = [
        builder.constant(one, name=name)
        if name == constant
        else builder.input(name, TensorType(one.dtype, one.shape))
        for name, one in given.items()
    ]
    given.pop(constant or "", None)
    graph = builder.graph({"y": builder.add(Convolution(geometry), *values)})
    found = compiled(handle, graph, channels_last=channels_last).run(given)
    np.testing.assert_allclose(found["y"], evaluate(graph, given)["y"], rtol=1e-4, atol=1e-4)
