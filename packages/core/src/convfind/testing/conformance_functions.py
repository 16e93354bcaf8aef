"""The kernels of `check_backend` in Python, for backends that run functions instead of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from convfind.testing.tensors import Bytes

#: Work-items of a work-group that reverses.
_GROUP = 16
#: Elements that the kernels without a count treat.
_COUNT = 64


def _affine(x: Bytes, y: Bytes, a: np.float32, b: np.float32, count: np.int32) -> None:
    size = 4 * int(count)
    y[:size].view(np.float32)[...] = a * x[:size].view(np.float32) + b


def _scalars(y: Bytes, *values: np.generic) -> None:
    y[: 8 * len(values)].view(np.int64)[...] = [int(value) for value in values]


def _reverse(x: Bytes, y: Bytes, *local: Bytes) -> None:
    groups = x[: 4 * _COUNT].view(np.float32).reshape(-1, _GROUP)
    y[: 4 * _COUNT].view(np.float32)[...] = groups[:, ::-1].ravel()


def _coordinates(y: Bytes, size_0: np.int32, size_1: np.int32, size_2: np.int32) -> None:
    k, j, i = np.indices((int(size_2), int(size_1), int(size_0)))
    y[: 4 * k.size].view(np.int32)[...] = (100 * k + 10 * j + i).ravel()


def _digits(ones: Bytes, tens: Bytes, hundreds: Bytes, y: Bytes, count: np.int32) -> None:
    size = 4 * int(count)
    one, ten, hundred = (digit[:size].view(np.float32) for digit in (ones, tens, hundreds))
    y[:size].view(np.float32)[...] = one + 10 * ten + 100 * hundred


#: By entry point, called as `MockBackend` calls its functions: bytes from the offset on for
#: memory, a NumPy scalar for a number.
CONFORMANCE_FUNCTIONS: Mapping[str, Callable[..., None]] = {
    "conform_affine": _affine,
    "conform_scalars": _scalars,
    "conform_reverse": _reverse,
    "conform_reverse_given": _reverse,
    "conform_coordinates": _coordinates,
    "conform_digits": _digits,
}
