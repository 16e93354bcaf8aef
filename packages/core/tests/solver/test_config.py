"""Configs give several parameters at a time, and leave some out."""

from __future__ import annotations

import pytest

from convfind.solver.config import Config


def test_several_integers_come_in_the_order_asked_for() -> None:
    assert Config(rows=1, columns=2, kind="a").integers("columns", "rows") == (2, 1)
    with pytest.raises(TypeError, match="kind"):
        Config(rows=1, kind="a").integers("rows", "kind")


def test_a_config_without_a_parameter_has_all_others() -> None:
    config = Config(rows=1, columns=2, parts=3)
    assert config.without("parts", "items") == Config(rows=1, columns=2)
    assert config.without("parts").defines == {"COLUMNS": 2, "ROWS": 1}
    assert config == Config(rows=1, columns=2, parts=3)
