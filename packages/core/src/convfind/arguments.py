"""Arguments as users give them: scalars of any library, misspelt names, values too long to show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Characters of a value that a message repeats.
_MOST_SHOWN = 200


def python_scalar(value: Any) -> Any:
    """Return a scalar or zero-dimensional array as Python's number; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def similar(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that a misspelt or shortened word may mean, at most five, best first."""
    import difflib

    names = list(names)
    word = word[:_MOST_SHOWN]
    begun = [name for name in names if name.startswith(word)] if word else []
    near = difflib.get_close_matches(word, names, n=5, cutoff=0.5)
    return list(dict.fromkeys((*begun, *near)))[:5]


def shown(value: object) -> str:
    """Return ``repr(value)``, cut in the middle where it is long: messages stay readable."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return shortened(text)


def shortened(text: str, most: int = _MOST_SHOWN) -> str:
    """Return a text, cut in the middle where it has more than so many characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}[... {len(text) - 2 * half} characters ...]{text[-half:]}"
