"""Tensors of the host are used where they lie, however their memory comes and goes."""

from __future__ import annotations

import gc
import weakref

import torch
from quick_finds import QUICK

import convfind_torch
from convfind_torch import functional
from convfind_torch.engine import engine
from convfind_torch.places import HostAddresses, HostPlace


def place() -> HostPlace:
    found = engine().place(torch.empty(1))
    assert isinstance(found, HostPlace)
    return found


def addresses() -> HostAddresses:
    return HostAddresses(place().handle.session.device)


def test_memory_that_is_used_again_has_the_buffer_that_it_had() -> None:
    kept, tensor = addresses(), torch.randn(4, 4096)
    first = kept.shared(tensor)
    assert first is not None
    assert kept.shared(tensor.view(2, -1)) is first
    assert kept.shared(tensor[:2]) is not first
    assert kept.shared(tensor[1:]) is not first


def test_memory_that_kernels_cannot_use_as_it_is_is_copied() -> None:
    kept, tensor = addresses(), torch.randn(1025)[1:]
    assert kept.shared(tensor) is None
    assert kept.of(tensor).size == tensor.nbytes
    assert kept.shared(torch.empty(0)) is None


def test_a_buffer_keeps_no_memory_alive() -> None:
    kept, tensor = addresses(), torch.randn(4, 4096)
    storage = weakref.ref(tensor.untyped_storage())
    assert kept.shared(tensor) is not None
    del tensor
    gc.collect()
    assert storage() is None


def test_other_tensors_at_the_same_address_are_read_as_they_are_now() -> None:
    memory, w = torch.empty(2 * 3 * 16 * 16), torch.randn(4, 3, 3, 3)
    with convfind_torch.using(**QUICK), torch.no_grad():
        for shape in ((2, 3, 16, 16), (1, 3, 16, 32), (2, 3, 16, 16), (2, 3, 32, 8)):
            x = memory.view(shape).normal_()
            torch.testing.assert_close(
                functional.conv2d(x, w), torch.conv2d(x, w), atol=1e-4, rtol=1e-4
            )
