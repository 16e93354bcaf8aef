"""Moments in streams: events, and streams that wait for others."""

from __future__ import annotations

from hip import hip

from convfind.errors import LaunchError
from convfind_backend_hip.errors import checked


class Event:
    """A moment in a stream."""

    __slots__ = ("_destroy", "_native")

    def __init__(self) -> None:
        made = hip.hipEventCreateWithFlags(hip.hipEventDefault)
        self._native = checked(made, "hipEventCreateWithFlags", "event")
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._destroy = hip.hipEventDestroy

    def __del__(self) -> None:
        destroy = getattr(self, "_destroy", None)
        if destroy is not None:
            destroy(self._native)

    def record(self, stream: int) -> None:
        """Set the event to the moment when all that was enqueued before is done."""
        checked(hip.hipEventRecord(self._native, stream), "hipEventRecord", "event", LaunchError)

    def has_passed(self) -> bool:
        """True when the moment is over, or where the device broke before it."""
        (status,) = hip.hipEventQuery(self._native)
        return bool(status != hip.hipError_t.hipErrorNotReady)

    def wait(self) -> None:
        """Wait for the moment; return at once where the device broke before it."""
        hip.hipEventSynchronize(self._native)

    def since(self, other: Event) -> float:
        """Wait, and return milliseconds from another event to this one."""
        waited = hip.hipEventSynchronize(self._native)
        checked(waited, "hipEventSynchronize", "waiting for the steps", LaunchError)
        elapsed = hip.hipEventElapsedTime(other._native, self._native)
        time: float = checked(elapsed, "hipEventElapsedTime", "timing", LaunchError)
        return time

    def hold_back(self, stream: int) -> None:
        """Let a stream wait for the moment."""
        waiting = hip.hipStreamWaitEvent(stream, self._native, 0)
        checked(waiting, "hipStreamWaitEvent", f"stream {stream:#x}")
