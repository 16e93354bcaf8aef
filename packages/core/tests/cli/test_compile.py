"""``convfind compile``: kernels ahead of the first find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import convfind
from convfind.checking import oracle
from convfind.cli import compile as compile_command
from convfind.cli.compile import programs_for
from convfind.device.kernel_figures import KernelFigures
from convfind.device.target import Target
from convfind.errors import BackendUnavailableError, KernelBuildError
from convfind.finddb import BinaryStore
from convfind.finddb.pack import read_pack
from convfind.kit.composed import Composed
from convfind.plugins import hookimpl
from convfind.problem import ConvProblem
from convfind.problem.common_networks import Use, common_networks
from convfind.runtime.backend import AheadCompiler
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind.testing import MOCK_TARGET, MockBackend
from convfind.testing.solvers import mock_solvers
from convfind.types import Direction

SHAPES = ("--x", "1,4,8,8", "--w", "4,4,3,3")
PROBLEM = ConvProblem.forward(x=(1, 4, 8, 8), w=(4, 4, 3, 3))
THERE = replace(MOCK_TARGET, arch="mock9", identity="")


def as_it_is(problem: ConvProblem) -> ConvProblem:
    return problem


class Elsewhere:
    """A compiler whose programs spill 8 bytes each."""

    target: Target = THERE
    broken = False

    def compile(self, program: Program) -> bytes:
        if self.broken:
            raise KernelBuildError(str(program.source), program.all_options, "error: nothing fits")
        return b"binary of " + str(program.source).encode()

    def figures(self, program: Program, binary: bytes) -> Sequence[KernelFigures]:
        assert binary.startswith(b"binary of ")
        return (KernelFigures("entry", 40, 8, 8),)


@pytest.fixture
def elsewhere(shell: Any, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    """The mock backend compiles for ``mock9``."""
    compiler = Elsewhere()

    def compiler_for(_: object, arch: str, units: int | None = None) -> AheadCompiler | None:
        if arch == "gone":
            raise BackendUnavailableError("pip install the-compiler")
        return compiler if arch == "mock9" else None

    monkeypatch.setattr(MockBackend, "compiler_for", compiler_for)
    return compiler


def test_what_is_compiled_for_a_target_lies_in_the_cache_under_its_key(
    shell: Any, elsewhere: Elsewhere
) -> None:
    document = shell.json("compile", "--target", "mock9", *SHAPES)
    assert document["target"] == THERE.identity
    assert document["programs"] == len(document["kernels"]) > 0
    assert {kernel["spilled"] for kernel in document["kernels"]} == {8}
    named = {solver for kernel in document["kernels"] for solver in kernel["solvers"]}
    assert named
    store = BinaryStore.open(shell.settings.user_db_path)
    programs = programs_for(shell.registry(), [PROBLEM], THERE)
    assert len(programs) == document["programs"]
    for program in programs:
        assert store.get(program.key(THERE.compiler)) is not None
        assert store.get(program.key(MOCK_TARGET.compiler)) is None


def test_a_table_shows_registers_and_spills(shell: Any, elsewhere: Elsewhere) -> None:
    text = shell("compile", "--target", "mock9", *SHAPES).stdout
    assert "registers" in text
    assert "entry" in text
    assert "programs compiled" in text


def test_programs_that_check_results_are_named_as_what_they_do(
    shell: Any, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = Program(
        KernelSource("convfind", "kit/kernels/epilogue_step.cl"), KernelLanguage.OPENCL_C
    )
    monkeypatch.setattr(oracle, "programs_for", lambda *_: [checks])
    rows = shell("compile", "--target", "mock9", *SHAPES).stdout.splitlines()
    (row,) = [line for line in rows if "epilogue_step.cl" in line]
    assert row.split() == ["entry", "epilogue_step.cl", "checks", "40", "8", "8"]


def test_a_device_that_is_here_compiles_for_itself_and_a_find_compiles_nothing(
    shell: Any,
) -> None:
    made = shell.json("compile", *SHAPES, code=1)  # one of the mock solvers never builds
    assert made["target"] == MOCK_TARGET.identity
    assert len(made["failed"]) == 1
    before = shell.backend.counters.compiles
    found = shell.json("find", *SHAPES, "--mode", "normal")
    assert found["measured"] > 1
    assert shell.backend.counters.compiles == before + 1


def test_kernels_in_a_pack_are_all_that_were_asked_for(
    shell: Any, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    first = shell.json("compile", "--target", "mock9", *SHAPES)
    output = tmp_path / "kernels.lmdb"
    words = ("compile", "--target", "mock9", *SHAPES, "--output", output)
    made = shell.json(*words)
    assert (made["programs"], made["known"]) == (0, first["programs"])
    assert made["pack"]["kernels"] == first["programs"]
    assert made["pack"]["sha256"] == read_pack(output).sha256
    assert first["pack"] is None
    text = shell(*words).stdout
    assert made["pack"]["sha256"] in text
    assert THERE.compiler in text
    with BinaryStore.open(None, [output]) as store:
        for program in programs_for(shell.registry(), [PROBLEM], THERE):
            assert store.get(program.key(THERE.compiler)) is not None


def test_a_pack_of_another_name_is_refused_before_anything_is_compiled(
    shell: Any, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    words = ("compile", "--target", "mock9", *SHAPES, "--output", tmp_path / "kernels.bin")
    assert "ends in .lmdb" in shell(*words, code=1).stderr
    assert not shell.settings.user_db_path.exists()


def test_kernels_that_a_package_ships_are_not_compiled(shell: Any, tmp_path: Path) -> None:
    output = tmp_path / "kernels.lmdb"
    shell("compile", *SHAPES, "--output", output, code=1)  # one of the mock solvers never builds
    shell.settings = replace(shell.settings, user_db_path=tmp_path / "another")

    class Shipping:
        @hookimpl
        def convfind_system_databases(self) -> list[Path]:
            return [output]

    before = shell.backend.counters.compiles
    found = shell.json("find", *SHAPES, "--mode", "normal", extra=(Shipping(),))
    assert found["measured"] > 1
    assert shell.backend.counters.compiles == before + 1
    facts = shell.json("doctor", extra=(Shipping(),))
    assert str(output) in facts["database"]["system"]
    assert facts["database"]["problems"] == []


@pytest.mark.slow
def test_without_a_problem_it_is_what_finds_of_common_networks_begin_with(shell: Any) -> None:
    command = ("compile", "-n", "1", "--direction", "fwd")
    made = shell.json(*command, code=1)  # one of the mock solvers never builds
    assert made["programs"] > 1
    assert made["known"] == 0
    assert len(made["failed"]) == 1
    again = shell.json(*command, code=1)
    assert (again["programs"], again["known"]) == (1, made["programs"] - 1)
    assert (
        f"0 of 1 programs compiled, {again['known']} were there" in shell(*command, code=1).stdout
    )
    before = shell.backend.counters.compiles
    handle = convfind.open("mock:0", registry=shell.registry(), settings=shell.settings)
    with handle:
        for network in common_networks([Use([as_it_is], [1])]):
            handle.compile_ahead(network)
    assert shell.backend.counters.compiles <= before + 4, "the one that does not build, each time"


@pytest.mark.slow
def test_programs_of_common_networks_have_the_solvers_that_launch_them(
    shell: Any, elsewhere: Elsewhere
) -> None:
    document = shell.json("compile", "--target", "mock9", "-n", "1")
    named = {solver for kernel in document["kernels"] for solver in kernel["solvers"]}
    assert named
    solvers = {solver.solver_id for solver in mock_solvers()}
    assert {name.removesuffix(Composed.suffix) for name in named} <= solvers
    assert document["known"] == 0


def test_options_without_sizes_are_wishes_for_the_layers_of_common_networks(
    shell: Any, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ConvProblem] = []

    def noted(networks: Any, session: Any, policy: Any) -> Any:
        asked.extend(problem for network in networks for problem in network)
        return {}

    monkeypatch.setattr(compile_command, "programs_of_networks", noted)
    target = ("compile", "--target", "mock9")
    shell(*target, "--dtype", "float16", "--layout", "NHWC", "-n", "3", "--direction", "bwd-data")
    assert {one.x_shape[0] for one in asked} == {3}
    assert {(one.dtype.value, one.w_layout.value) for one in asked} == {("float16", "NHWC")}
    assert {one.direction for one in asked} == {Direction.BACKWARD_DATA}
    asked.clear()
    shell(*target, "--epilogue", "bias+silu")
    assert {(one.direction, one.bias, str(one.activation)) for one in asked} == {
        (Direction.FORWARD, True, "silu")
    }
    refused = shell(*target, "--stride", "2", code=2)
    assert "--x and --w is missing" in refused.stderr


def test_layers_of_a_file_are_compiled_together(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ConvProblem] = []
    programs = compile_command.programs_for

    def noted(registry: Any, problems: Any, target: Target) -> Any:
        asked.extend(problems)
        return programs(registry, problems, target)

    monkeypatch.setattr(compile_command, "programs_for", noted)
    file = tmp_path / "layers.txt"
    forward = "conv -n 1 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -F 1\n"
    file.write_text(forward * 2 + forward.replace("-k 4", "-k 8"))
    assert shell.json("compile", "--layers", file, "-n", "2", code=1)["programs"] > 0
    assert [problem.w_shape[0] for problem in asked] == [4, 8]
    assert {problem.x_shape[0] for problem in asked} == {2}
    refused = shell("compile", "--layers", file, *SHAPES, code=2)
    assert "either a problem or --layers" in refused.stderr


def test_a_target_that_nobody_knows_and_one_whose_compiler_is_missing_are_told(
    shell: Any, elsewhere: Elsewhere
) -> None:
    assert "convfind-backend-cuda" in shell("compile", "--target", "no", *SHAPES, code=2).stderr
    gone = shell("compile", "--target", "gone", *SHAPES, code=1).stderr
    assert "mock: pip install the-compiler" in gone


def test_programs_that_do_not_build_are_listed_and_the_command_fails(
    shell: Any, elsewhere: Elsewhere
) -> None:
    elsewhere.broken = True
    failed = shell("compile", "--target", "mock9", *SHAPES, code=1)
    assert "nothing fits" in failed.stdout
    assert "do not build" in failed.stderr


def test_options_that_contradict_each_other_are_refused(shell: Any) -> None:
    both = shell("compile", "--target", "mock9", "--device", "mock:0", *SHAPES, code=2)
    assert "leave out --device" in both.stderr
    alone = shell("compile", "--compute-units", "3", *SHAPES, code=2)
    assert "--compute-units belongs to --target" in alone.stderr
