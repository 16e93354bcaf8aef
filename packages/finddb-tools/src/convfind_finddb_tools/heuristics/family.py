"""Shape families: problems that are the same layer."""

from __future__ import annotations

from hashlib import blake2b

from convfind.problem import ConvProblem

_FLAT = (1, 1, 1, 0, 1)  # a depth that is none


def family_of(problem: ConvProblem) -> int:
    """A number that problems share which are one layer.

    They may differ in batch size, data type, direction and layout, in being 2-D or 3-D with depth
    1, and by an exchange of the spatial axes.
    """
    axes = sorted(
        axis
        for axis in zip(
            problem.x_shape[2:],
            problem.filter,
            problem.stride,
            problem.padding,
            problem.dilation,
            strict=True,
        )
        if axis != _FLAT
    )
    text = repr((problem.x_shape[1], problem.w_shape[0], problem.groups, axes))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
