"""The package as a plugin."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import convfind_backend_opencl
from convfind.plugins.registry import Registry
from convfind_backend_opencl import OpenCLBackend, hooks


def test_the_entry_point_is_the_module_of_hooks() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    entry_points = tomllib.loads(text)["project"]["entry-points"]["convfind"]
    assert [import_module(name) for name in entry_points.values()] == [hooks]


def test_the_backend_is_registered() -> None:
    registry = Registry.build([hooks], load_entry_points=False)
    assert isinstance(registry.backends["opencl"], OpenCLBackend)
    assert registry.failures == ()


def test_public_names() -> None:
    assert convfind_backend_opencl.__all__ == ["OpenCLBackend"]
