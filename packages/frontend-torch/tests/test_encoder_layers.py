"""PyTorch's encoder layers are one plan, in one piece with what is around them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from convfind_torch import report

pytest.importorskip("convfind_networks")
# PyTorch warns of itself while it compiles, and of layers that it would not compute so.
pytestmark = pytest.mark.filterwarnings(
    *("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:enable_nested_tensor"),
    *("ignore:The PyTorch API of nested tensors", "ignore:Dynamo does not know"),
)

OPTIONS = {"mode": "FAST", "keep_faster": False}
PADDED, BEFORE = torch.arange(5) >= torch.tensor([[5], [3]]), torch.ones(5, 5).triu(1) > 0
_X = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
#: The arguments of calls, one after the other.
CALLS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "sizes": ((_X,), (torch.cat((_X, -_X), 1),), (_X[:1, :4],)),
    "padded": ((_X, None, PADDED), (_X[:, :4], None, PADDED[:, :4])),
    "masked": ((_X, BEFORE, None, False), (_X, BEFORE, None, True)),
    "both": ((_X, BEFORE, PADDED, False),),
    "numbers": ((_X, torch.zeros(5, 5).masked_fill(BEFORE, -torch.inf), None, False),),
}
LAYERS: dict[str, dict[str, Any]] = {
    "norms last": {"norm_first": False, "activation": "relu"},
    "norms first": {"norm_first": True, "activation": "gelu"},
    "sequences first": {"batch_first": False},
}


def encoder(*, enable_nested_tensor: bool = False, **fields: Any) -> nn.TransformerEncoder:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(16, 2, 24, **{"batch_first": True, **fields})
    made = nn.TransformerEncoder(
        layer, 2, enable_nested_tensor=enable_nested_tensor, mask_check=False
    )
    return made.eval()


def calls_by_place() -> Counter[str]:
    """Count the calls of graphs by what computed them."""
    counts = Counter[str]()
    for line in report().lines:
        if line.problem.startswith("graph of"):
            counts[line.where] += line.calls
    return counts


def cast(given: Any, dtype: torch.dtype) -> Any:
    is_float = isinstance(given, torch.Tensor) and given.is_floating_point()
    return given.to(dtype) if is_float else given


def check(
    calls: tuple[tuple[Any, ...], ...], dtype: torch.dtype, tolerance: float, **fields: Any
) -> None:
    """Hold a compiled encoder to PyTorch's in float64, and see that each call is one plan's."""
    torch.compiler.reset()
    run = torch.compile(encoder(**fields).to(dtype), backend="convfind", options=OPTIONS)
    right, before = encoder(**fields).to(dtype).double(), calls_by_place()
    with torch.no_grad():
        for given in calls:
            got = run(*(cast(one, dtype) for one in given))
            expected = right(*(cast(cast(one, dtype), torch.float64) for one in given))
            assert got.dtype == dtype
            torch.testing.assert_close(got.double(), expected, atol=tolerance, rtol=tolerance)
    if any("no installed package" in line.reason for line in report().lines):
        pytest.skip("nothing that computes the other operators is installed")
    assert calls_by_place() - before == {"plan": len(calls)}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("layer", ["norms last", "norms first"])
def test_an_encoder_is_one_plan(layer: str, name: str) -> None:
    check(CALLS[name], torch.float32, 1e-5, **LAYERS[layer])


def test_an_encoder_with_sequences_first_is_one_plan() -> None:
    check(CALLS["sizes"], torch.float32, 1e-5, **LAYERS["sequences first"])


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 1e-2), (torch.bfloat16, 8e-2)], ids=str
)
@pytest.mark.parametrize("layer", ["norms last", "norms first"])
def test_an_encoder_in_16_bits_is_one_plan(
    layer: str, dtype: torch.dtype, tolerance: float
) -> None:
    check((*CALLS["sizes"], *CALLS["padded"][:1]), dtype, tolerance, **LAYERS[layer])


def test_nested_tensors_are_left_to_pytorch() -> None:
    torch.compiler.reset()
    model, before = encoder(enable_nested_tensor=True), calls_by_place()
    run = torch.compile(model, backend="convfind", options=OPTIONS)
    with torch.no_grad():
        got = run(_X, None, PADDED)
        assert not got[1, 3:].any()  # as nested tensors are padded
        torch.testing.assert_close(got, model(_X, None, PADDED))
    assert calls_by_place() == before
