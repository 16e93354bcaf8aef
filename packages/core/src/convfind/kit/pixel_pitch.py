"""`pixel_pitch`, `result_pitch`: how far apart the pixels of a tensor lie, channels last."""

from __future__ import annotations

from dataclasses import replace

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected

#: Kernels count elements from pixel to pixel in 32 bits.
_LARGEST = 2**30


def pixel_pitch(problem: ConvProblem, name: str) -> int | None:
    """Return the elements from one pixel of a tensor to the next, at least its channels.

    That is what a tensor has which lies among the channels of a larger one. None where it has other
    gaps, or channels come first.
    """
    if not problem.tensor_layout(name).channels_last:
        return None
    (batch, channels, *spatial), (image, channel, *steps) = (
        problem.shape(name),
        problem.strides(name),
    )
    pitch, pixels = None, 1
    for size, step in reversed([(batch, image), *zip(spatial, steps, strict=True)]):
        if size > 1:
            pitch = pitch or step // pixels
            if step != pitch * pixels:
                return None
        pixels *= size
    return (pitch or channels) if channels == 1 or channel == 1 else None


def pixel_pitches(problem: ConvProblem) -> tuple[int, int] | None:
    """Return the pitches of x and of y; None where either has other gaps, or w has any."""
    x, y = pixel_pitch(problem, "x"), pixel_pitch(problem, "y")
    return None if x is None or y is None or _has_gaps(problem, "w") else (x, y)


def has_only_pitches(problem: ConvProblem) -> Applicability:
    """Take packed tensors, and x and y with gaps between their pixels only."""
    if problem.is_packed:
        return APPLICABLE
    pitches = pixel_pitches(problem)
    if pitches is None:
        return Rejected(Reason.NON_PACKED, "gaps between pixels of x and y only")
    return _judge(max(pitches))


def result_pitch(problem: ConvProblem) -> int | None:
    """Return the pitch of the result's pixels; None where anything else has gaps, too."""
    writes = problem.direction.writes
    if any(name != writes and _has_gaps(problem, name) for name in ("x", "w", "y")):
        return None
    return pixel_pitch(problem, writes)


def has_only_pitch(problem: ConvProblem) -> Applicability:
    """Take packed tensors, and a result with gaps between its pixels only."""
    if problem.is_packed:
        return APPLICABLE
    pitch = result_pitch(problem)
    if pitch is None:
        return Rejected(Reason.NON_PACKED, "gaps between pixels of the result only")
    return _judge(pitch)


def without_gaps(problem: ConvProblem) -> ConvProblem:
    """Return the problem with packed tensors: its sizes are those of what is read and written."""
    if problem.is_packed:
        return problem
    return replace(problem, x_strides=None, w_strides=None, y_strides=None)


def _judge(pitch: int) -> Applicability:
    if pitch > _LARGEST:
        return Rejected(Reason.SIZE_LIMIT, f"pixels {pitch} elements apart")
    return APPLICABLE


def _has_gaps(problem: ConvProblem, name: str) -> bool:
    given = {"x": problem.x_strides, "w": problem.w_strides, "y": problem.y_strides}
    return given[name] is not None
