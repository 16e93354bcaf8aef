"""What a child for candidates costs: its start, and a request.

python benchmarks/isolation.py [DEVICE]
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import convfind

_STARTS = 5
_REQUESTS = 1000


def main(device: str | None) -> None:
    """Print seconds of CPU time and of the clock for a start, and milliseconds for a request."""
    with convfind.open(device) as handle:
        child = handle.session.child
        assert child is not None
        starts, cpu = [], []
        for _ in range(_STARTS):
            child.close()
            began = time.perf_counter()
            child.life()
            starts.append(time.perf_counter() - began)
            cpu.append(_cpu_seconds(child.pid))
        began = time.perf_counter()
        for _ in range(_REQUESTS):
            child.call("forget", (), limit=60.0)
        request = (time.perf_counter() - began) / _REQUESTS
        print(f"start    {statistics.median(starts):.2f} s, {statistics.median(cpu):.2f} s of CPU")
        print(f"request  {1e3 * request:.3f} ms")


def _cpu_seconds(pid: int | None) -> float:
    """User and system time of a process, from Linux's tables."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
