"""`convfind.__all__` is the public API: sorted, complete, and every name resolves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import convfind
from convfind.handle import Handle
from convfind.handle.miopen_calls import MIOpenCalls


def test_all_is_sorted_and_without_repetition() -> None:
    assert list(convfind.__all__) == sorted(set(convfind.__all__))


def test_every_public_name_resolves() -> None:
    missing = [name for name in convfind.__all__ if not hasattr(convfind, name)]
    assert not missing


def test_every_name_that_is_not_private_is_public() -> None:
    for name in convfind.__all__:
        getattr(convfind, name)
    visible = {
        name
        for name, value in vars(convfind).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert visible - {"TYPE_CHECKING", "annotations"} <= set(convfind.__all__)


#: Operands of other problems than convolutions have names that nobody can know.
OPERANDS = {"Handle.run", "Convolution.run"}


def calls(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions and methods of a class, and its constructor."""
    for name, value in inspect.getmembers(kind, callable):
        if not name.startswith("_") or (name == "__init__" and "__init__" in vars(kind)):
            yield f"{kind.__name__}.{name}", value


@pytest.mark.parametrize(
    "kind",
    [
        *(Handle, MIOpenCalls, convfind.Convolution, convfind.ConvProblem, convfind.Policy),
        *(convfind.FindResult, convfind.Solution),
    ],
)
def test_an_editor_shows_every_parameter(kind: type) -> None:
    hidden = {
        name
        for name, call in calls(kind)
        for parameter in inspect.signature(call).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD and "Unpack" not in str(parameter.annotation)
    }
    assert hidden <= OPERANDS


def test_a_convolution_is_one_call_with_named_options() -> None:
    parameters = inspect.signature(Handle.convolve).parameters
    assert list(parameters)[:3] == ["self", "x", "w"]
    assert "CallOptions" in str(parameters["options"].annotation)
