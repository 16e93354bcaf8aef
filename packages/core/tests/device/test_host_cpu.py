"""The CPU of this machine, by what systems say of theirs."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from convfind.device import host_cpu
from convfind.device.host_cpu import host_arch, host_model

ZEN_4 = """processor	: 0
vendor_id	: AuthenticAMD
cpu family	: 25
model		: 17
model name	: AMD EPYC
flags		: fpu sse avx2 avx512f

processor	: 1
cpu family	: 25
model		: 17
"""
ZEN_5 = ZEN_4.replace(": 25", ": 26").replace(": 17", ": 2")
GRAVITON_3 = """processor	: 0
Features	: fp asimd sve
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x1
CPU part	: 0xd40
CPU revision	: 1
"""


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Linux says it, still empty."""
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(host_cpu, "_CPU_INFO", file)
    return file


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (ZEN_4, "family 25 model 17"),
        (ZEN_5, "family 26 model 2"),
        (GRAVITON_3, "implementer 0x41 part 0xd40"),
        ("isa		: rv64imafdc\n", ""),
    ],
)
def test_linux_tells_a_cpus_model(linux: Path, text: str, model: str) -> None:
    linux.write_text(text)
    assert host_model() == model


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("AMD64 Family 25 Model 97 Stepping 2, AuthenticAMD", "family 25 model 97"),
        ("arm", ""),  # as on macOS
    ],
)
def test_windows_tells_it_as_the_processors_name(
    linux: Path, monkeypatch: pytest.MonkeyPatch, text: str, model: str
) -> None:
    monkeypatch.setattr(platform, "processor", lambda: text)
    assert host_model() == model


@pytest.mark.parametrize(
    ("machine", "text", "arch"),
    [
        ("x86_64", ZEN_4, "x86-64-avx512"),
        ("AMD64", ZEN_4.replace("avx512f", ""), "x86-64-avx2"),
        ("AMD64", "", "x86-64"),
        ("aarch64", GRAVITON_3, "aarch64"),
    ],
)
def test_the_arch_is_the_instruction_set(
    linux: Path, monkeypatch: pytest.MonkeyPatch, machine: str, text: str, arch: str
) -> None:
    linux.write_text(text)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert host_arch() == arch
