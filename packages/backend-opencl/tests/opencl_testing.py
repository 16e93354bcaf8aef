"""The devices there are, found once, and a runner for the small kernels beside this file."""

from __future__ import annotations

import pytest

from convfind.errors import BackendUnavailableError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import Argument, Launch, Step
from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.invoker import OpenCLInvoker

try:
    NUMBERS = [
        pytest.param(number, id=target.platform.split()[0] + str(number))
        for number, target in enumerate(OpenCLBackend().targets())
    ]
except BackendUnavailableError as exc:
    NUMBERS = [pytest.param(0, marks=pytest.mark.skip(reason=str(exc)))]


class Runner:
    """Compiles the test kernels once and makes invokers of them."""

    def __init__(self, device: OpenCLDevice) -> None:
        self.device = device
        self.program = Program(KernelSource("opencl_test_kernels", "steps.cl"))
        self._loaded = device.load(self.program, device.compile(self.program))

    def launch(
        self,
        entry: str,
        *arguments: Argument,
        size: tuple[int, ...] = (64,),
        local: tuple[int, ...] = (16,),
    ) -> Launch:
        """A step."""
        return Launch(KernelSpec(self.program, entry), arguments, size, local)

    def invoker(self, *steps: Step) -> OpenCLInvoker:
        """An invoker."""
        invoker = self.device.invoker(steps, {self.program: self._loaded})
        assert isinstance(invoker, OpenCLInvoker)
        return invoker

    def run(self, args: InvokeArgs, *steps: Step) -> None:
        """Run steps and wait."""
        self.invoker(*steps)(args)
        self.device.synchronize()
