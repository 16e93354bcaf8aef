"""Every command teaches by examples, and every example does what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from convfind.cli import build_program
from convfind.device.kernel_figures import KernelFigures
from convfind.device.target import Target
from convfind.plugins import hookimpl
from convfind.plugins.layer_reader import LayerReader
from convfind.plugins.registry import BackendRegistry, LayerReaderRegistry, Registry, SolverRegistry
from convfind.problem.text import parse_layers
from convfind.runtime.backend import AheadCompiler
from convfind.settings import Settings
from convfind.solver.kernel_spec import Program
from convfind.testing.command_examples import command_examples, words_of
from convfind.testing.mock_backend import MockBackend
from convfind.testing.solvers import MockBroken, MockFused, mock_solvers

LAYERS = "conv -n 64 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1  # x3\n"


@dataclass
class Ahead:
    """Compiles for any architecture."""

    target: Target

    def compile(self, program: Program) -> bytes:
        return program.source.text.encode()

    def figures(self, program: Program, binary: bytes) -> Sequence[KernelFigures]:
        return ()


class OpenCL(MockBackend):
    """The mock backend under the name that examples have."""

    name = "opencl"

    def compiler_for(self, arch: str, compute_units: int | None = None) -> AheadCompiler:
        return Ahead(self.targets()[0])


class Plugin:
    """A device, its solvers, and a reader of models."""

    __name__ = "examples-plugin"

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(OpenCL)

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        whole = [one for one in mock_solvers() if not isinstance(one, MockBroken)]
        register.extend([*whole, MockFused()])

    @hookimpl
    def convfind_register_layer_readers(self, register: LayerReaderRegistry) -> None:
        register.add(LayerReader("onnx", lambda path, _: parse_layers(LAYERS, path)))


def program(folder: Path) -> Any:
    registry = Registry.build([Plugin()], load_entry_points=False)
    return build_program(registry, Settings(user_db_path=folder / "db", compile_parallel_level=1))


EXAMPLES = dict(command_examples(program(Path())))


@pytest.mark.parametrize("command", EXAMPLES)
def test_every_command_has_an_example(command: str) -> None:
    assert EXAMPLES[command]


def in_its_tier(example: str) -> Any:
    """An example; that of all layers of common networks is among the slow ones."""
    names_layers = "layers.txt" in example or "--x" in example
    is_slow = example.startswith("convfind compile") and not names_layers
    return pytest.param(example, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [in_its_tier(one) for some in EXAMPLES.values() for one in some]
)
def test_every_example_succeeds(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    Path("layers.txt").write_text(LAYERS)
    Path("net.onnx").write_bytes(b"")
    np.save("x.npy", np.ones((1, 3, 32, 32), np.float32))
    np.save("w.npy", np.ones((8, 3, 3, 3), np.float32))
    result = CliRunner().invoke(program(tmp_path), words_of(example))
    assert result.exit_code == 0, (result.output, result.exception)
