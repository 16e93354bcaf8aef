"""Solvers have kernels for a CPU of another architecture, which nobody here can run."""

from __future__ import annotations

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.types import Direction

ARM = Target(
    backend="opencl",
    name="Neoverse-N1",
    kind=DeviceKind.CPU,
    vendor="ARM",
    platform="Portable Computing Language",
    arch="aarch64",
    compute_units=4,
    driver="6.0 OpenCL 3.0 PoCL 6.0",
    features=frozenset({"fp64", "int8", "unified-memory"}),
    local_memory=512 * 1024,
    global_memory=2**34,
    cache=2**25,
    max_work_group=4096,
)
LAYERS = {
    "1x1": ConvProblem.forward((2, 64, 28, 28), (128, 64, 1, 1)),
    "3x3": ConvProblem.forward((2, 64, 28, 28), (64, 64, 3, 3), padding=1),
    "first": ConvProblem.forward((1, 3, 64, 64), (32, 3, 7, 7), stride=2, padding=3),
    "depthwise": ConvProblem.forward((1, 32, 28, 28), (32, 1, 3, 3), padding=1, groups=32),
}


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_has_kernels(layer: str, direction: Direction) -> None:
    problem = LAYERS[layer].with_direction(direction)
    solvers, _ = default_registry().solvers_for(ARM)
    takers = [solver for solver in solvers if solver.takes(problem, ARM)]
    assert any(not solver.is_last_resort for solver in takers)
    for solver in takers:
        recipe = solver.solution(problem, ARM)
        assert recipe.steps
        assert all(program.source.text for program in recipe.programs)
