"""Constants that a layer reads as rows, with their channels last, are read as they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from plans_for_tests import compiled

from convfind.handle import Handle
from convfind_networks import GraphBuilder
from convfind_networks.graph import TensorType
from convfind_networks.ops import Epilogue, Linear
from convfind_networks.plan import Plan


@pytest.mark.parametrize("constant", ["x", "z"])
def test_constant_rows_are_read_as_they_lie(handle: Handle, tmp_path: Path, constant: str) -> None:
    """As the residual of DETR's first decoder, which begins with what is learned."""
    builder, rng = GraphBuilder(), np.random.default_rng(0)
    given = {
        name: rng.standard_normal(shape, np.float32)
        for name, shape in {"x": (2, 7, 5), "w": (4, 5), "bias": (4,), "z": (2, 7, 4)}.items()
    }
    values = [
        builder.constant(one, name=name)
        if name == constant
        else builder.input(name, TensorType(one.dtype, one.shape))
        for name, one in given.items()
    ]
    op = Linear(Epilogue(bias=True, residual=True))
    plan = compiled(handle, builder.graph({"y": builder.add(op, *values)}))
    plan.save(tmp_path / "saved.plan")
    right = given["x"] @ given["w"].T + given["bias"] + given["z"]
    for one in (plan, Plan.load(tmp_path / "saved.plan", handle)):
        found = one.run({port.name: given[port.name] for port in one.inputs})
        np.testing.assert_allclose(found["y"], right, rtol=1e-5, atol=1e-5)
