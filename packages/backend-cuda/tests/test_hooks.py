"""What the package registers, and that nothing of CUDA is imported for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from cuda.bindings.driver import CUresult

from convfind.device.target import DeviceKind, Target
from convfind.errors import BackendUnavailableError, DeviceError, LaunchError
from convfind.finddb import FindDb
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind_backend_cuda import CudaBackend, cublas
from convfind_backend_cuda.errors import checked, failure


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
    assert isinstance(registry.backends["cuda"], CudaBackend)
    assert {"cuda-gemm-pointwise-fwd", "cuda-gemm-im2col-bwd-weights"} <= {
        solver.solver_id for solver in registry.solvers
    }


def test_records_of_an_h200_are_shipped_by_all_packages_that_win_there() -> None:
    registry = default_registry()
    cuda = [path for path in registry.system_databases() if path.name == "h200-cuda.lmdb"]
    assert len(cuda) == 5
    target = Target(
        *("cuda", "NVIDIA H200", DeviceKind.GPU, "NVIDIA", "CUDA", "sm_90", 132, "NVRTC 13.0")
    )
    problem = ConvProblem.forward(x=(64, 64, 56, 56), w=(64, 64, 3, 3), padding=1, layout="NHWC")
    with FindDb.open(None, cuda) as database:
        stored = database.lookup(target, problem)
    assert stored is not None
    families = {record.package.partition(" ")[0] for record in stored.entry.records}
    assert families >= {"convfind-backend-cuda", "convfind-solvers-igemm"}
    for record in stored.entry.records:
        solver = registry.find_solver(record.solver)
        assert solver is not None
        assert record.solver_version == solver.version


def test_registering_imports_no_cuda() -> None:
    script = "from convfind.plugins.registry import default_registry; default_registry()\n"
    script += "import sys; print([name for name in sys.modules if name.startswith('cuda')])"
    assert _run(script) == "[]\n"


def test_without_a_device_the_message_says_what_to_install() -> None:
    script = """
from convfind.errors import BackendUnavailableError
from convfind_backend_cuda import CudaBackend
try:
    CudaBackend().targets()
except BackendUnavailableError as error:
    print(error)
"""
    text = _run(script, CUDA_VISIBLE_DEVICES="")
    assert "install" in text
    assert text.count("\n") == 1


def test_without_cublas_the_message_names_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        msg = "Failure finding libcublas\nin many places"
        raise RuntimeError(msg)

    monkeypatch.setattr("cuda.pathfinder.load_nvidia_dynamic_lib", missing)
    cublas.load_library.cache_clear()
    with pytest.raises(BackendUnavailableError, match=r"pip install nvidia-cublas$"):
        cublas.load_library()
    assert not cublas.has_library()


def test_a_status_is_named_with_call_and_advice() -> None:
    assert checked((CUresult.CUDA_SUCCESS, 5), "cuCall", "work") == 5
    assert checked((CUresult.CUDA_SUCCESS,), "cuCall", "work") is None
    with pytest.raises(DeviceError, match=r"^work: cuCall failed with CUDA_ERROR_OUT_OF_MEMORY; f"):
        checked((CUresult.CUDA_ERROR_OUT_OF_MEMORY, None), "cuCall", "work")
    assert isinstance(failure(719, "cuCall", "work", LaunchError), LaunchError)
    assert "refuses this process all further work" in str(
        failure(719, "cuCall", "work", LaunchError)
    )
    assert "54321" in str(failure(54321, "cuCall", "work", DeviceError))
