"""Runs an operator that is no convolution: max pooling, found without measuring."""

from __future__ import annotations

import numpy as np

import convfind
from convfind_operators import PoolingProblem
from convfind_operators.pooling import PoolingFunction


def main() -> None:
    """Pool an image, and compare with NumPy."""
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8), dtype=np.float32)
    problem = PoolingProblem(x=x.shape, function=PoolingFunction.MAX, size=(2, 2), stride=(2, 2))
    with convfind.open("opencl:cpu") as handle:
        y = handle.run(handle.find(problem).best, x=x)
    np.testing.assert_array_equal(y, x.reshape(1, 4, 4, 2, 4, 2).max(axis=(3, 5)))


if __name__ == "__main__":
    main()
