"""`convfind.__all__` is the public API: sorted, complete, and every name resolves."""

from __future__ import annotations

from types import ModuleType

import convfind


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
