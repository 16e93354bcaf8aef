"""The operators of ONNX that are supported: those with a function here, and those made of them.

``python -m convfind_networks.from_onnx.supported PAGE`` writes the list into a page of the
documentation; a test holds that it is up to date.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import onnx

from convfind_networks.from_onnx.operators import OPERATORS

#: Functions that ONNX spells anew for the types of each call, all of whose parts are supported.
_SPELLED_BY_CALL = frozenset(
    {
        *("Attention", "CausalConvWithState", "CenterCropPad", "NegativeLogLikelihoodLoss"),
        *("LinearAttention", "RotaryEmbedding", "SequenceMap", "SoftmaxCrossEntropyLoss"),
    }
)
_FENCE = re.compile(r"(?<=<!-- operators: begin -->\n).*?(?=<!-- operators: end -->)", re.DOTALL)


def operators() -> dict[str, bool]:
    """Return every operator of ONNX's own domain that is in use, and whether it is supported."""
    names = {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if schema.domain == "" and not schema.deprecated
    }
    return {name: _is_supported(name) for name in sorted(names)}


def listed() -> str:
    """Return both lists as the documentation has them."""
    found = operators()
    yes = [name for name, supported in found.items() if supported]
    no = [name for name, supported in found.items() if not supported]
    return (
        f"{_lines(f'Supported, {len(yes)} of {len(found)}', yes)}\n\n"
        f"{_lines('Not supported', no)}\n"
    )


def with_list(page: str) -> str:
    """Return a page with the list between its marks."""
    return _FENCE.sub(lambda _: listed(), page)


def _is_supported(name: str) -> bool:
    if name in OPERATORS or name in _SPELLED_BY_CALL:
        return True
    schema: Any = onnx.defs.get_schema(name)
    return schema.has_function and all(
        _is_supported(node.op_type) for node in schema.function_body.node
    )


def _lines(title: str, names: list[str]) -> str:
    return textwrap.fill(f"{title}: {', '.join(names)}.", 120, break_long_words=False)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_list(path.read_text()))
