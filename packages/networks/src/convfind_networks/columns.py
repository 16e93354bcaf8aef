"""Images as columns of blocks, which may overlap, and back: unfolding and folding."""

from __future__ import annotations

import itertools
import math

import numpy as np

from convfind_networks.graph import Value
from convfind_networks.importing import Composer
from convfind_networks.ops import Combine, Gather, Pad, ScatterElements, Slice, Window
from convfind_networks.tensor_type import Array


def columns_of_image(add: Composer, x: Value, window: Window) -> Value:
    """Return the blocks of images, (N, C * block, blocks); outside of an image there are zeros."""
    batch, channels, *sizes = x.shape
    padded, places = _places(tuple(sizes), window)
    edges = (0, 0, *window.padding), (0, 0, *window.padding_end)
    whole = add.add(Pad(*edges), x) if window.is_padded else x
    flat = add.reshape(whole, batch, channels, math.prod(padded))
    block = math.prod(window.size)
    found = add.add(Gather(2), flat, add.const(places.reshape(block, -1)))
    return add.reshape(found, batch, channels * block, places.size // block)


def image_of_columns(add: Composer, x: Value, image: tuple[int, ...], window: Window) -> Value:
    """Return images of which x has the blocks, (N, C * block, blocks); where they overlap, sums."""
    padded, places = _places(image, window)
    flat = (x.shape[0], x.shape[1] // math.prod(window.size), places.size)
    zeros = add.const(np.zeros((*flat[:2], math.prod(padded))), like=x)
    spread = add.const(np.broadcast_to(places.reshape(-1), flat).copy())
    sums = add.add(ScatterElements(2, Combine.ADD), zeros, spread, add.reshape(x, *flat))
    whole = add.reshape(sums, *flat[:2], *padded)
    cut = {
        2 + axis: slice(begin, begin + size)
        for axis, (begin, size) in enumerate(zip(window.padding, image, strict=True))
    }
    return add.add(Slice.of(whole.shape, cut), whole)


def _places(image: tuple[int, ...], window: Window) -> tuple[list[int], Array]:
    """Return an image's sizes with its padding, and where in it each element of each block is."""
    padded = [n + b + e for n, b, e in zip(image, window.padding, window.padding_end, strict=True)]
    along = zip(padded, window.size, window.stride, window.dilation, strict=True)
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in along]
    places = np.zeros((*window.size, *counts), np.int64)
    for taps in itertools.product(*map(range, window.size)):
        axes = [
            np.arange(count) * s + tap * d
            for count, s, tap, d in zip(counts, window.stride, taps, window.dilation, strict=True)
        ]
        places[taps] = np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), padded)
    return padded, places
