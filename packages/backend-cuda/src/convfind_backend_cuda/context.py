"""`Context`: the context of a device that all libraries of a process share."""

from __future__ import annotations

from functools import cache
from types import TracebackType

from cuda.bindings import driver

from convfind_backend_cuda.errors import checked


class Context:
    """A device's primary context, current between ``with`` and its end.

    It is never given back: memory may outlive its device, and other libraries use it, too.
    """

    def __init__(self, number: int) -> None:
        doing = f"opening CUDA device {number}"
        device = checked(driver.cuDeviceGet(number), "cuDeviceGet", doing)
        retained = driver.cuDevicePrimaryCtxRetain(device)
        self._native = checked(retained, "cuDevicePrimaryCtxRetain", doing)
        count = checked(driver.cuDeviceGetCount(), "cuDeviceGetCount", doing)
        #: Whether no call can mean another device.
        self.is_only = count == 1
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._push, self._pop = driver.cuCtxPushCurrent, driver.cuCtxPopCurrent

    def __enter__(self) -> None:
        self._push(self._native)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pop()

    def use(self) -> None:
        """Make it current in this thread for good, unless the thread has another one."""
        status, current = driver.cuCtxGetCurrent()
        if not status and not int(current):
            driver.cuCtxSetCurrent(self._native)


@cache
def context_of(number: int) -> Context:
    """Return the context of a device. Raises `DeviceError`."""
    return Context(number)
