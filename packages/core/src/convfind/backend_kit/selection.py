"""`select`: the device that a user's words mean."""

from __future__ import annotations

from collections.abc import Sequence

from convfind.arguments import shown
from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError


def select(backend: str, selector: str, targets: Sequence[Target]) -> int:
    """Return the index of the first target that a selector means; the empty one means the first.

    A selector is a number, a kind (``cpu``, ``gpu``) or a part of vendor, name, platform,
    architecture or driver, in any case.

    Raises:
        DeviceError: no target matches; the message lists them.
    """
    wanted = selector.strip().lower()
    if wanted.isdecimal():
        matches = [int(wanted)] if int(wanted) < len(targets) else []
    elif wanted in tuple(DeviceKind):
        matches = [index for index, target in enumerate(targets) if target.kind == wanted]
    else:
        matches = [index for index, target in enumerate(targets) if wanted in _text(target)]
    if not matches:
        listed = "; ".join(
            f"{index}: {target.name} ({target.kind}, {target.platform}, {target.arch})"
            for index, target in enumerate(targets)
        )
        msg = f"no {backend} device matches {shown(selector)}; there are: {listed}"
        raise DeviceError(msg)
    return matches[0]


def _text(target: Target) -> str:
    # The driver holds the platform's version, the only place where PoCL calls itself so.
    words = (target.vendor, target.name, target.platform, target.arch, target.driver)
    return " ".join(words).lower()
