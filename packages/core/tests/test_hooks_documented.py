"""``docs/hooks.md`` has a section for every hook, and a line for each of its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from convfind.plugins import spec

PAGE = (Path(__file__).parents[3] / "docs/hooks.md").read_text()
HOOKS = {
    name: function
    for name, function in vars(spec).items()
    if name.startswith("convfind_") and inspect.isfunction(function)
}
EACH_HOOK = pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)


def section(hook: Callable[..., object]) -> str:
    arguments = ", ".join(inspect.signature(hook).parameters)
    _, found, rest = PAGE.partition(f"\n### `{hook.__name__}({arguments})`\n")
    assert found, f"no section for {hook.__name__}({arguments})"
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


@EACH_HOOK
def test_every_argument_has_a_line(hook: Callable[..., object]) -> None:
    described = re.findall(r"^\* `(\w+)`: ", section(hook), re.MULTILINE)
    assert described == list(inspect.signature(hook).parameters)


@EACH_HOOK
def test_every_hook_names_a_user(hook: Callable[..., object]) -> None:
    assert re.search(r"\bUsed by \S", section(hook))


@EACH_HOOK
def test_every_hook_has_a_docstring(hook: Callable[..., object]) -> None:
    assert inspect.getdoc(hook)


def test_the_page_has_no_hook_that_does_not_exist() -> None:
    assert set(re.findall(r"^### `(\w+)\(", PAGE, re.MULTILINE)) == set(HOOKS)
