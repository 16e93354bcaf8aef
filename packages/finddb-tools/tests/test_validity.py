"""Keys that a database of convfind may hold: of convolutions, and of problems of packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from convfind.device.target import Target
from convfind.errors import ProblemError
from convfind.finddb.key import SCHEMA
from convfind.plugins import hookimpl
from convfind.plugins.registry import ProblemTypeRegistry, Registry
from convfind.problem import ConvProblem
from convfind_finddb_tools import validity


@dataclass(frozen=True)
class Sorting:
    """A problem of another type."""

    kind: ClassVar[str] = "sorting"
    is_measured: ClassVar[bool] = True
    size: int

    @property
    def key(self) -> str:
        return f"sorting-{self.size}"

    @classmethod
    def from_key(cls, text: str) -> Sorting:
        word = text.removeprefix("sorting-")
        if not word.isdecimal():
            raise ProblemError("key", text, "sorting-N")
        return cls(int(word))

    def plain(self) -> Sorting:
        return self

    def operand(self, name: str) -> None:
        raise KeyError(name)


class Plugin:
    """The package that brings it."""

    @hookimpl
    def convfind_register_problem_types(self, register: ProblemTypeRegistry) -> None:
        sorting: Any = Sorting  # it has of a problem what keys need
        register.add(sorting)


@pytest.mark.parametrize(
    ("problem", "is_right"),
    [
        ("sorting-8", True),
        ("sorting-08", False),  # another spelling would be found by nobody
        ("sorting-x", False),
        ("shuffling-8", False),
        ("16-16-16-3x3-16-16-16-1-1x1-1x1-1x1-0-NCHW-FP32-F", False),
    ],
)
def test_keys_of_packages_are_keys_in_their_one_spelling(
    monkeypatch: pytest.MonkeyPatch, target: Target, problem: str, is_right: bool
) -> None:
    registry = Registry.build([Plugin()], load_entry_points=False)
    monkeypatch.setattr(validity, "default_registry", lambda: registry)
    fault = validity.key_fault(f"{SCHEMA}|{target.identity}|{problem}")
    assert (fault is None) is is_right


def test_keys_of_convolutions_need_no_package(target: Target, problem: ConvProblem) -> None:
    assert validity.key_fault(f"{SCHEMA}|{target.identity}|{problem.key}") is None
