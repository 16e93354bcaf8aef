"""A driver where there is no GPU: memory of the host, streams that run at once, a journal.

It replaces the module that the backend calls, function for function; enumerations are CUDA's own. A
"kernel" is a function of Python, which gets the packed arguments of its launch.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cuda.bindings import driver as real

import convfind_backend_cuda.context
import convfind_backend_cuda.device
import convfind_backend_cuda.driver_call
import convfind_backend_cuda.graph
import convfind_backend_cuda.interop
import convfind_backend_cuda.memory
import convfind_backend_cuda.module
import convfind_backend_cuda.ready_launch
import convfind_backend_cuda.stream
import convfind_backend_cuda.tensor_map
from convfind.device.target import DeviceKind, Target
from convfind_backend_cuda.driver_call import LaunchConfig

TARGET = Target(
    *("cuda", "a gpu", DeviceKind.GPU, "NVIDIA Corporation", "CUDA", "sm_90", 132, "NVRTC 0"),
    features=frozenset({"fp16", "nv-ptx"}),
    local_memory=48 << 10,
    global_memory=1 << 30,
    max_work_group=1024,
    wave_size=32,
)
_MODULES = (
    convfind_backend_cuda.context,
    convfind_backend_cuda.device,
    convfind_backend_cuda.driver_call,
    convfind_backend_cuda.graph,
    convfind_backend_cuda.interop,
    convfind_backend_cuda.memory,
    convfind_backend_cuda.module,
    convfind_backend_cuda.ready_launch,
    convfind_backend_cuda.stream,
    convfind_backend_cuda.tensor_map,
)
OK = real.CUresult.CUDA_SUCCESS
_CAPTURE = real.CUstreamCaptureStatus
Kernel = Callable[[bytes], None]


class _Map:
    """A map of a tensor, as the bindings return one."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def getPtr(self) -> int:
        return ctypes.addressof(self._made)


class StandinDriver:
    """CUDA's driver over the host's memory. ``journal`` tells what was enqueued, and where."""

    def __init__(self) -> None:
        self.journal: list[tuple[Any, ...]] = []
        self.capturing: set[int] = set()
        #: Names of calls, and the status that each of their next calls returns.
        self.failing: dict[str, real.CUresult] = {}
        self.devices = 1
        #: The kernels of every module: the sizes of their arguments, and what they do.
        self.kernels: dict[str, tuple[tuple[int, ...], Kernel]] = {}
        self.local_memory: dict[int, int] = {}
        self.blocks: dict[int, Any] = {}
        self.contexts: list[int] = []
        self._numbers = itertools.count(1000)
        self._functions: dict[int, str] = {}
        #: What streams record, and what graphs replay: calls that take the stream of the moment.
        self._recording: dict[int, list[Callable[[int], int]]] = {}
        self._graphs: dict[int, list[Callable[[int], int]]] = {}
        fill = (ctypes.c_void_p, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)
        replay = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)
        launch = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        self._calls = {
            b"cuGraphLaunch": replay(self._replay),
            b"cuLaunchKernelEx": launch(self._launch),
            b"cuMemsetD8Async": ctypes.CFUNCTYPE(ctypes.c_int, *fill)(self._fill),
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("CU", "cuuint")):
            return getattr(real, name)
        raise AttributeError(name)

    def _status(self, call: str) -> real.CUresult:
        return self.failing.pop(call, OK)

    def cuGetProcAddress(self, name: bytes, version: int, flags: object) -> tuple[Any, ...]:
        return OK, ctypes.cast(self._calls[name], ctypes.c_void_p).value, 0

    # -- devices and contexts ---------------------------------------------------------------------

    def cuDeviceGet(self, number: int) -> tuple[Any, ...]:
        return self._status("cuDeviceGet"), number

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return OK, self.devices

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        return OK, 7000 + device

    def cuCtxPushCurrent(self, context: int) -> tuple[Any, ...]:
        self.contexts.append(context)
        return (OK,)

    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        return OK, self.contexts.pop()

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return OK, self.contexts[-1] if self.contexts else 0

    def cuCtxSetCurrent(self, context: int) -> tuple[Any, ...]:
        self.contexts[-1:] = [context]
        return (OK,)

    def cuCtxSynchronize(self) -> tuple[Any, ...]:
        self.journal.append(("wait for all",))
        return (OK,)

    # -- memory -----------------------------------------------------------------------------------

    def cuMemAllocAsync(self, size: int, stream: int) -> tuple[Any, ...]:
        if status := self._status("cuMemAllocAsync"):
            return status, 0
        block = (ctypes.c_ubyte * (size + 512))()
        address = -(-ctypes.addressof(block) // 512) * 512
        self.blocks[address] = block
        self.journal.append(("allocate", size, stream))
        return OK, address

    def cuMemFreeAsync(self, address: int, stream: int) -> tuple[Any, ...]:
        self.journal.append(("free", stream))
        del self.blocks[address]
        return (OK,)

    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: int) -> tuple[Any, ...]:
        if status := self._status("cuMemcpyHtoDAsync"):
            return (status,)
        ctypes.memmove(to, source, size)
        self.journal.append(("write", size, stream))
        return (OK,)

    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: int) -> tuple[Any, ...]:
        ctypes.memmove(to, source, size)
        self.journal.append(("read", size, stream))
        return (OK,)

    def cuMemsetD8Async(self, address: int, byte: int, size: int, stream: int) -> tuple[Any, ...]:
        return (self._fill(address, byte, size, stream),)

    def cuPointerGetAttribute(self, which: object, address: int) -> tuple[Any, ...]:
        return OK, 0

    def _fill(self, address: int, byte: int, size: int, stream: int | None) -> int:
        if status := self._status("cuMemsetD8Async"):
            return int(status)

        def run(stream: int) -> int:
            ctypes.memset(address, byte, size)
            self.journal.append(("fill", size, stream))
            return 0

        return self.do(run, stream or 0)

    # -- streams and events -----------------------------------------------------------------------

    def cuStreamIsCapturing(self, stream: int) -> tuple[Any, ...]:
        active = _CAPTURE.CU_STREAM_CAPTURE_STATUS_ACTIVE
        none = _CAPTURE.CU_STREAM_CAPTURE_STATUS_NONE
        return OK, active if stream in {*self.capturing, *self._recording} else none

    def cuStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        return (self._status("cuStreamSynchronize"),)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Any, ...]:
        self.journal.append(("wait", stream))
        return (OK,)

    def cuEventCreate(self, flags: object) -> tuple[Any, ...]:
        return OK, next(self._numbers)

    def cuEventDestroy(self, event: int) -> tuple[Any, ...]:
        return (OK,)

    def cuEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:
        self.journal.append(("record", stream))
        return (OK,)

    def cuEventQuery(self, event: int) -> tuple[Any, ...]:
        return (OK,)

    def cuEventSynchronize(self, event: int) -> tuple[Any, ...]:
        return (self._status("cuEventSynchronize"),)

    def cuEventElapsedTime(self, first: int, last: int) -> tuple[Any, ...]:
        return OK, 0.25

    # -- kernels ----------------------------------------------------------------------------------

    def cuModuleLoadData(self, code: bytes) -> tuple[Any, ...]:
        return self._status("cuModuleLoadData"), next(self._numbers)

    def cuModuleUnload(self, module: int) -> tuple[Any, ...]:
        return (OK,)

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[Any, ...]:
        if name.decode() not in self.kernels:
            return real.CUresult.CUDA_ERROR_NOT_FOUND, 0
        function = next(self._numbers)
        self._functions[function] = name.decode()
        return OK, function

    def cuTensorMapEncodeTiled(self, *given: Any) -> tuple[Any, ...]:
        return self._map("tiled", *given)

    def cuTensorMapEncodeIm2col(self, *given: Any) -> tuple[Any, ...]:
        return self._map("im2col", *given)

    def _map(self, kind: str, dtype: Any, rank: int, address: int, *given: Any) -> tuple[Any, ...]:
        """Note what a map is made of; it holds nothing but the address."""
        numbers = [list(map(int, one)) for one in given if isinstance(one, list)]
        self.journal.append(("map", kind, dtype.name, address, *numbers))
        made = ctypes.create_string_buffer(address.to_bytes(8, "little"), 128)
        return self._status("cuTensorMapEncode"), _Map(made)

    def cuFuncLoad(self, function: int) -> tuple[Any, ...]:
        return (OK,)

    def cuFuncGetParamInfo(self, function: int, index: int) -> tuple[Any, ...]:
        sizes = self.kernels[self._functions[function]][0]
        if index == len(sizes):
            return real.CUresult.CUDA_ERROR_INVALID_VALUE, 0, 0
        return OK, 0, sizes[index]

    def cuFuncGetAttribute(self, which: object, function: int) -> tuple[Any, ...]:
        return OK, 1024

    def cuFuncSetAttribute(self, function: int, which: object, size: int) -> tuple[Any, ...]:
        self.local_memory[function] = size
        return (self._status("cuFuncSetAttribute"),)

    def _launch(self, config: int, function: int, parameters: int, extra: int | None) -> int:
        assert not extra
        if status := self._status("cuLaunchKernelEx"):
            return int(status)
        name, given = self._functions[function], LaunchConfig.from_address(config)
        arguments = self.kernels[name][0]
        data = b""
        addresses = (ctypes.c_void_p * len(arguments)).from_address(parameters)
        for at, size in zip(addresses, arguments, strict=True):
            data += bytes(-len(data) % size) + ctypes.string_at(at or 0, size)
        sizes = (*given.grid, *given.block)

        def run(stream: int, local: int = given.local_memory) -> int:
            self.journal.append(("launch", name, sizes, local, stream))
            self.kernels[name][1](data)
            return 0

        return self.do(run, given.stream or 0)

    # -- graphs -----------------------------------------------------------------------------------

    def do(self, run: Callable[[int], int], stream: int) -> int:
        """Run work on a stream, or note it where the stream records."""
        if stream in self._recording:
            self._recording[stream].append(run)
            return 0
        return run(stream)

    def cuStreamCreate(self, flags: object) -> tuple[Any, ...]:
        return self._status("cuStreamCreate"), next(self._numbers)

    def cuStreamDestroy(self, stream: int) -> tuple[Any, ...]:
        return (OK,)

    def cuStreamBeginCapture(self, stream: int, mode: object) -> tuple[Any, ...]:
        if not (status := self._status("cuStreamBeginCapture")):
            self._recording[stream] = []
        return (status,)

    def cuStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        graph = next(self._numbers)
        self._graphs[graph] = self._recording.pop(stream)
        return self._status("cuStreamEndCapture"), graph

    def cuGraphInstantiate(self, graph: int, flags: int) -> tuple[Any, ...]:
        made = next(self._numbers)
        self._graphs[made] = self._graphs[graph]
        return self._status("cuGraphInstantiate"), made

    def cuGraphDestroy(self, graph: int) -> tuple[Any, ...]:
        del self._graphs[graph]
        return (OK,)

    def cuGraphExecDestroy(self, graph: int) -> tuple[Any, ...]:
        self.journal.append(("destroy graph",))
        del self._graphs[graph]
        return (OK,)

    def _replay(self, graph: int, stream: int | None) -> int:
        if status := self._status("cuGraphLaunch"):
            return int(status)
        self.journal.append(("replay", stream or 0))
        return max([run(stream or 0) for run in self._graphs[graph]], default=0)


@contextmanager
def standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandinDriver]:
    """Put a stand-in in the driver's place."""
    driver = StandinDriver()
    for module in _MODULES:
        monkeypatch.setattr(module, "driver", driver)
    caches = (
        convfind_backend_cuda.context.context_of,
        convfind_backend_cuda.driver_call.launch_graph,
        convfind_backend_cuda.driver_call.launch_kernel,
        convfind_backend_cuda.driver_call.set_bytes,
    )
    for cached in caches:
        cached.cache_clear()
    yield driver
    for cached in caches:
        cached.cache_clear()
