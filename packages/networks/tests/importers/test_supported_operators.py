"""The list of ONNX's operators in the documentation is that of the code."""

from __future__ import annotations

from pathlib import Path

from convfind_networks.from_onnx.supported import operators, with_list

PAGE = Path(__file__).parents[4] / "docs/networks.md"


def test_the_documentation_lists_what_is_supported() -> None:
    page = PAGE.read_text()
    assert with_list(page) == page, f"run python -m convfind_networks.from_onnx.supported {PAGE}"


def test_operators_of_networks_for_images_are_supported() -> None:
    found = operators()
    assert {"Conv", "Attention", "If", "GridSample", "Einsum", "SwiGLU"} <= {
        name for name, supported in found.items() if supported
    }
    assert not found["StringSplit"]
