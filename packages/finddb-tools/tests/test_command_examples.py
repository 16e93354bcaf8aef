"""Every command of this package teaches by examples, and every example does what it says."""

from __future__ import annotations

import bz2
import dataclasses
import os
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import convfind_finddb_tools.cli.tune_run
import convfind_finddb_tools.hooks
from convfind.cli import build_program
from convfind.device.target import DeviceKind
from convfind.finddb import FindDb, QuarantineRecord
from convfind.finddb.kernel_pack import write_kernels
from convfind.finddb.packs import installed_packs
from convfind.plugins import hookimpl
from convfind.plugins.registry import BackendRegistry, Registry, SolverRegistry
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.testing.command_examples import command_examples, words_of
from convfind.testing.mock_backend import MOCK_TARGET, MockBackend
from convfind.testing.solvers import mock_solvers
from convfind_finddb_tools.tune.fleet import Fleet
from convfind_finddb_tools.tune.launching import Launch, open_fleet

DATA = Path(__file__).with_name("data")
GROUPS = ("db", "tune", "report", "heuristics")
H200 = dataclasses.replace(
    MOCK_TARGET,
    name="NVIDIA H200",
    kind=DeviceKind.GPU,
    identity="opencl|NVIDIA CUDA|NVIDIA H200|sm_90|132",
)
PERF = "2x64x56x56x1x3x3x1x64x16x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvAsm3x3U:7,8,4\n"
FIND = (
    "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F="
    "ConvDirectNaiveConvFwd:0.77,0,miopenConvolutionFwdAlgoDirect\n"
)
#: The problem of many examples.
USUAL = ConvProblem.forward((16, 64, 56, 56), (64, 64, 3, 3), padding=1)
#: What examples need beside this package.
NEEDS = {
    "--torch": "torch",
    "heuristics train": "torch",
    "--sign": "cryptography",
    "db sign": "cryptography",
    "--trust": "cryptography",
    "keygen": "cryptography",
    ".onnx": "onnx",
    "db serve": "starlette",
    "--workers 2": "distributed",
}


class OpenCL(MockBackend):
    """The mock backend under the name that examples have, with a GPU before a CPU."""

    name = "opencl"


class Plugin:
    """Devices and solvers."""

    __name__ = "examples-plugin"

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.add(OpenCL((H200, MOCK_TARGET)))

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend(mock_solvers())


def program(folder: Path) -> Any:
    registry = Registry.build([convfind_finddb_tools.hooks, Plugin()], load_entry_points=False)
    return build_program(registry, Settings(user_db_path=folder / "user", compile_parallel_level=1))


EXAMPLES = {
    command: examples
    for command, examples in command_examples(program(Path()))
    if set(command.split()) & set(GROUPS)
}


def run(folder: Path, *words: str) -> None:
    result = CliRunner().invoke(program(folder), list(words))
    assert result.exit_code == 0, (words, result.output, result.exception)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that examples name: logs, layers, databases, MIOpen's texts, a pack, a model."""
    folder = tmp_path_factory.mktemp("files")
    small = "conv -n {} -c {} -H {} -W {} -k 4 -y {} -x {} -p 0 -q 0 -F 1"
    lines = [
        small.format(batch, channels, size, size, window, window)
        for batch in (1, 4, 16)
        for channels in (2, 3, 4)
        for size in (5, 6)
        for window in (1, 3)
    ]
    for name in ("resnet50.txt", "benchmarks/layers/resnet50.txt", "app.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join([*lines, ""]))
    (folder / "mymodels.py").write_text(
        "import torch\n\ndef resnet():\n"
        "    return torch.nn.Conv2d(3, 4, 3), (torch.zeros(1, 3, 8, 8),)\n"
    )
    for text in DATA.glob("*.fdb.txt"):
        content = text.read_bytes() + (FIND.encode() if "gfx90a" in text.name else b"")
        for name in (text.name, "gfx906_60.HIP.fdb.txt", "my.fdb.txt"):
            if name == text.name or "gfx906" in text.name:
                (folder / name).write_bytes(content)
                (folder / f"{name}.bz2").write_bytes(bz2.compress(content))
    shutil.copy(folder / "gfx90a68.HIP.fdb.txt.bz2", folder / "gfx90878.HIP.fdb.txt.bz2")
    (folder / "gfx906_60.db.txt").write_text(PERF)
    (folder / "version2").mkdir()
    for device in ("opencl:0", "opencl:1"):
        layers, tuned = str(folder / "resnet50.txt"), str(folder / "tuned")
        run(folder, "tune", "run", layers, "--to", tuned, "--device", device)
    miopen = [str(folder / f"{name}.HIP.fdb.txt") for name in ("gfx90a68", "gfx942130")]
    for name in ("tuned", "miopen", "mi250", "fleet"):
        run(folder, "db", "import", *miopen, "--to", str(folder / name))
    shutil.rmtree(folder / "mi250")
    run(folder, "db", "import", miopen[0], "--to", str(folder / "mi250"))
    run(folder, "db", "merge", str(folder / "tuned"), "--to", str(folder / "fleet"))
    run(folder, "db", "export", str(folder / "tuned"), "--format", "jsonl", "--output",
        str(folder / "reviewed.jsonl"))  # fmt: skip
    with FindDb.open(folder / "tuned") as database:
        failed = QuarantineRecord(
            solver="winograd-f4x3-cpu-nchw-fwd",
            solver_version=1,
            source_hash="",
            driver=H200.driver,
            reason="crashed",
        )
        database.quarantine(H200, USUAL, failed)
        old = ConvProblem.from_driver(lines[0])
        entry = database.own(H200, old)[0]
        assert entry is not None
        before = tuple(
            msgspec.structs.replace(one, created=one.created - 60 * 86400) for one in entry.records
        )
        database.store(H200, old.with_batch(2), msgspec.structs.replace(entry, records=before))
        # By a solver that is not installed here: nothing this large is ever computed.
        (first, *_) = before
        missing = msgspec.structs.replace(
            first,
            solver="winograd-usual",
            algorithm="winograd",
            package="convfind-solvers-winograd 0.1.0",
        )
        database.store(H200, USUAL, msgspec.structs.replace(entry, records=(missing,)))
    others = ("before", "after", "node1", "node2", "node3", "shard", "damaged", "user")
    for name in (*others, "home/.local/share/convfind"):
        shutil.copytree(folder / "tuned", folder / name, dirs_exist_ok=True)
    shutil.copy(folder / "tuned" / "finddb.lmdb", folder / "finddb.lmdb.corrupt-1")
    words = ("--device", "H200", "--to", str(folder / "recorded"))  # replays are of one device
    run(folder, "db", "merge", str(folder / "tuned"), *words)
    (folder / "tuned.jsonl").write_bytes((folder / "reviewed.jsonl").read_bytes())
    return folder


def prepared(example: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make what only some examples need, and return the example's words."""
    if ".onnx" in example:
        write_model(folder / "model.onnx")
    if "team.key" in example and "keygen" not in example:
        run(folder, "db", "keygen", "team.key")
    if "h200.lmdb" in example and "db pack " not in example:
        key = ("--sign", "team.key") if "--trust" in example else ()
        run(folder, "db", "pack", "tuned", "--device", "H200", "--output", "h200.lmdb", *key)
    if "kernels.lmdb" in example:
        write_kernels(folder / "kernels.lmdb", H200, [("a key", b"a kernel")])
        if "--trust" in example:
            run(folder, "db", "sign", "kernels.lmdb", "--key", "team.key")
    if "packs" in example and "--uninstall" in example:
        run(folder, "db", "pack", "tuned", "--device", "H200", "--output", "h200.lmdb")
        run(folder, "db", "install", "h200.lmdb")
    for name in set(re.findall(r"\w+\.npz", example)) - set(re.findall(r"--output (\S+)", example)):
        pytest.importorskip("torch")
        run(folder, "heuristics", "train", "tuned", "--output", name, "--epochs", "1")
    if "models --uninstall" in example:
        run(folder, "heuristics", "train", "tuned", "--output", "h200.npz", "--epochs", "1")
        run(folder, "heuristics", "install", "h200.npz")
    if "status" in example or "tune status" in example:
        run(folder, "tune", "run", "resnet50.txt", "--to", "user")
    if ("--workers" in example or "--scheduler" in example) and "--replay" not in example:
        here(monkeypatch)
    words = [word.replace("~", str(folder / "home")) for word in words_of(example)]
    hashed = {"5f0c2a9be411": digest(folder)}
    words = [hashed.get(word) or word for word in words]
    if "simulate" in words and "--replay" not in words:
        words += ["--problems", "2000"]
    if "train" in words:
        words += ["--epochs", "1"]
    return words


def digest(folder: Path) -> str:
    """Return the beginning of the hash of the pack that is installed, or would be."""
    from convfind.finddb.pack import read_pack

    packs = [*installed_packs(folder / "user"), *folder.glob("h200.lmdb")]
    return read_pack(packs[0]).sha256[:12] if packs else ""


def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process do what an example leaves to GPUs or a cluster that are not here."""

    def open_here(order: Any, launch: Any, registry: Any, settings: Any) -> Fleet:
        return open_fleet(order, Launch(), registry, settings)

    monkeypatch.setattr(convfind_finddb_tools.cli.tune_run, "open_fleet", open_here)


def write_model(path: Path) -> None:
    """Write an ONNX model of one small convolution whose batch is open."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4, 4, 4])],
        [weights],
    )
    path.write_bytes(helper.make_model(graph).SerializeToString())


def test_every_command_has_an_example() -> None:
    assert len(EXAMPLES) > 30
    assert [command for command, examples in EXAMPLES.items() if not examples] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", dict.fromkeys(one for some in EXAMPLES.values() for one in some)
)
def test_every_example_succeeds(
    example: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, module in NEEDS.items():
        if words in example:
            pytest.importorskip(module)
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HOME", os.fspath(tmp_path / "home"))
    run(tmp_path, *prepared(example, tmp_path, monkeypatch))
