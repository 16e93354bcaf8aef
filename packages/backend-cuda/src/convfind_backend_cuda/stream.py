"""Moments in streams: events, and streams that wait for others."""

from __future__ import annotations

from collections.abc import Callable

from cuda.bindings import driver

from convfind.errors import LaunchError
from convfind_backend_cuda.errors import checked


class Event:
    """A moment in a stream. Streams are the addresses of their handles; 0 is the default one."""

    __slots__ = ("_destroy", "_native")

    def __init__(self, *, timing: bool = False) -> None:
        flags = driver.CUevent_flags
        flag = flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING
        self._native = checked(driver.cuEventCreate(flag), "cuEventCreate", "event")
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._destroy = driver.cuEventDestroy

    def __del__(self) -> None:
        destroy = getattr(self, "_destroy", None)
        if destroy is not None:
            destroy(self._native)

    def record(self, stream: int) -> None:
        """Set the event to the moment when all that was enqueued before is done."""
        checked(driver.cuEventRecord(self._native, stream), "cuEventRecord", "event", LaunchError)

    def has_passed(self) -> bool:
        """True when the moment is over, or where the device broke before it."""
        (status,) = driver.cuEventQuery(self._native)
        return bool(status != driver.CUresult.CUDA_ERROR_NOT_READY)

    def wait(self) -> None:
        """Wait for the moment; return at once where the device broke before it."""
        driver.cuEventSynchronize(self._native)

    def since(self, other: Event) -> float:
        """Wait, and return milliseconds from another event to this one; both are for timing."""
        waited = driver.cuEventSynchronize(self._native)
        checked(waited, "cuEventSynchronize", "waiting for the steps", LaunchError)
        elapsed = driver.cuEventElapsedTime(other._native, self._native)
        time: float = checked(elapsed, "cuEventElapsedTime", "timing", LaunchError)
        return time

    def hold_back(self, stream: int) -> None:
        """Let a stream wait for the moment."""
        waiting = driver.cuStreamWaitEvent(stream, self._native, 0)
        checked(waiting, "cuStreamWaitEvent", f"stream {stream:#x}", LaunchError)


def is_capturing(stream: int) -> bool:
    """True where what is enqueued becomes part of a graph, and does not run."""
    return capture_check()(stream)


def capture_check() -> Callable[[int], bool]:
    """Return `is_capturing` for finalisers: at the interpreter's end modules are emptied."""
    ask = driver.cuStreamIsCapturing
    none = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE

    def check(stream: int) -> bool:
        if not stream:  # the default stream cannot be captured
            return False
        status, state = ask(stream)
        return bool(status or state != none)

    return check


def address_of(stream: object) -> int:
    """Return the address of a stream's handle: of a number, or of what has ``__cuda_stream__``.

    Raises `LaunchError` for anything else.
    """
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        msg = f"stream is a {type(stream).__name__}; pass an address or a __cuda_stream__ object"
        raise LaunchError(msg)
    _version, address = protocol() if callable(protocol) else protocol
    return int(address)
