"""What the package registers, and that nothing of HIP is imported for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from convfind.backend_kit.selection import select
from convfind.device.target import DeviceKind, Target
from convfind.errors import BackendUnavailableError, DeviceError, LaunchError
from convfind.plugins.registry import default_registry
from convfind_backend_hip.errors import checked, failure

_UNAVAILABLE = """
from convfind.errors import BackendUnavailableError
from convfind_backend_hip import HipBackend
try:
    HipBackend().targets()
except BackendUnavailableError as error:
    print(error)
"""


def _run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_backend_and_its_solvers_are_registered() -> None:
    registry = default_registry()
    assert "hip" in registry.backends
    assert {"hip-gemm-pointwise-fwd", "hip-gemm-im2col-bwd-weights"} <= {
        solver.solver_id for solver in registry.solvers
    }


def test_registering_imports_no_hip() -> None:
    script = "from convfind.plugins.registry import default_registry; default_registry()\n"
    script += (
        "import sys; print([name for name in sys.modules if name.startswith(('hip', 'rocm'))])"
    )
    assert _run(script) == "[]\n"


@pytest.mark.skipif(os.path.exists("/dev/kfd"), reason="there is an AMD GPU")
def test_without_a_runtime_or_device_the_message_says_what_to_install() -> None:
    text = _run(_UNAVAILABLE, ROCM_PATH="/nonexistent", HIP_VISIBLE_DEVICES="")
    assert "install" in text


def test_devices_are_picked_by_number_kind_and_name() -> None:
    targets = tuple(
        Target("hip", name, DeviceKind.GPU, "AMD", "ROCm", arch, 1, "1")
        for name, arch in (("AMD Instinct MI250X", "gfx90a"), ("AMD Radeon", "gfx1030"))
    )
    assert [select("hip", s, targets) for s in ("", "1", "gpu", "radeon", "gfx1030", "MI250")] == [
        *(0, 1, 0, 1, 1, 0),
    ]
    with pytest.raises(DeviceError, match="gfx1030"):
        select("hip", "nvidia", targets)


def test_a_status_is_raised_by_name_with_advice() -> None:
    class Status(int):
        name = "hipErrorOutOfMemory"

    assert checked((0, 7), "hipMalloc", "allocation") == 7
    assert checked((0,), "hipFree", "release") is None
    with pytest.raises(LaunchError, match="hipMalloc failed with hipErrorOutOfMemory; free"):
        checked((Status(2), None), "hipMalloc", "allocation of 9 bytes", LaunchError)


def test_every_status_says_what_to_do() -> None:
    from hip import hip

    statuses = [status for status in hip.hipError_t if status]
    assert len(statuses) > 50
    for status in statuses:
        said = str(failure(status, "hipMalloc", "allocation", DeviceError))
        assert f"hipMalloc failed with {status.name}; " in said
        assert said.partition(f"{status.name}; ")[2]


def test_unavailable_is_a_device_error() -> None:
    assert issubclass(BackendUnavailableError, DeviceError)
