"""The program as a process, among installed plugins that are broken in every way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

#: A command whose thread would keep the process alive, and says so if nothing ends it before.
STUCK = """
    import os, signal, threading, time

    import click

    from convfind.plugins import hookimpl

    def stay():
        time.sleep(60)
        os._exit(7)

    @hookimpl
    def convfind_register_commands(cli):
        @cli.command("stuck")
        def stuck():
            # A shell that starts a program in the background lets it ignore the signal.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            threading.Thread(target=stay).start()
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
    """

#: A device whose compiler, told to by a terminal's Ctrl-C, keeps its thread to itself all the same.
BUSY = """
    import hashlib, os, signal

    from convfind.plugins import hookimpl
    from convfind.testing import MockBackend, mock_solvers
    from convfind.testing.mock_backend import MockDevice

    def compile(self, program):
        os.kill(0, signal.SIGINT)  # the group, as a terminal does
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**8)  # which no signal reaches
        os._exit(7)

    MockDevice.compile = compile

    @hookimpl
    def convfind_register_backends(register):
        register.add(MockBackend)

    @hookimpl
    def convfind_register_solvers(register):
        register.extend(mock_solvers())
    """

#: A problem.
LAYER = ["conv", "-n", "1", "-c", "2", "-H", "4", "-W", "4", "-k", "2", "-y", "3", "-x", "3"]

PLUGINS = {
    "aaa-working": """
        from convfind.plugins import hookimpl
        from convfind.testing import MockBackend, mock_solvers

        @hookimpl
        def convfind_register_backends(register):
            register.add(MockBackend)

        @hookimpl
        def convfind_register_solvers(register):
            register.extend(mock_solvers())
        """,
    "bbb-raises": "raise RuntimeError('not today')",
    "ccc-duplicate": """
        from convfind.plugins import hookimpl
        from convfind.testing import mock_solvers

        @hookimpl
        def convfind_register_solvers(register):
            register.add(mock_solvers()[0])
        """,
    "ddd-nonsense": """
        from convfind.plugins import hookimpl

        @hookimpl
        def convfind_register_solvers(register):
            register.add("a solver")

        @hookimpl
        def convfind_system_databases():
            return 42
        """,
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which the plugins, and no others, are installed and selected."""
    for distribution, code in PLUGINS.items():
        module = distribution.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(code))
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(f"[convfind]\n{distribution} = {module}\n")
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    own = {"CONVFIND_PLUGINS": ",".join(PLUGINS), "CONVFIND_USER_DB_PATH": str(tmp_path / "db")}
    others = {name: value for name, value in os.environ.items() if "CONVFIND" not in name}
    return others | own | {"PYTHONPATH": path}


def convfind(
    environment: dict[str, str], *arguments: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "convfind", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def test_broken_plugins_stop_nothing_and_the_doctor_names_them(
    environment: dict[str, str],
) -> None:
    document = json.loads(convfind(environment, "doctor", "--json", code=1).stdout)
    failures = [(f["distribution"], f["stage"], f["error"]) for f in document["plugin_failures"]]
    assert failures == [
        ("bbb-raises", "import", "RuntimeError: not today"),
        (
            "ccc-duplicate",
            "convfind_register_solvers",
            "solver 'mock-wrong' is registered by both aaa-working 1.0 and ccc-duplicate 1.0; "
            "uninstall one",
        ),
        (
            "ddd-nonsense",
            "convfind_register_solvers",
            "'a solver' is not an instance of convfind.solver.Solver",
        ),
        (
            "ddd-nonsense",
            "convfind_system_databases",
            "returned 42; return a list of pathlib.Path",
        ),
    ]
    text = convfind(environment, "doctor", code=1).stdout
    assert "4 broken:" in text


def test_a_hit_in_a_new_process_compiles_and_measures_nothing(
    environment: dict[str, str],
) -> None:
    first = json.loads(convfind(environment, "find", "--json", *LAYER).stdout)
    done = convfind(environment, "find", "--json", *LAYER)
    second = json.loads(done.stdout)
    assert first["measured"] > 0
    assert (second["origin"], second["compiled"], second["measured"]) == ("user-db", 0, 0)
    # Standard output is JSON only; what is wrong with plugins goes to standard error.
    assert done.stderr.count("warning: plugin ") == 4


def test_disabled_plugins_are_left_alone(environment: dict[str, str]) -> None:
    environment["CONVFIND_DISABLE_PLUGINS"] = "bbb-raises, ccc-duplicate, ddd-nonsense"
    document = json.loads(convfind(environment, "doctor", "--json").stdout)
    assert document["plugin_failures"] == []
    assert set(PLUGINS) - {"aaa-working"} <= set(document["disabled_plugins"])


def test_ctrl_c_ends_the_program_whatever_it_is_busy_with(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "aaa_working.py").write_text(textwrap.dedent(STUCK))
    assert "interrupted" in convfind(environment, "stuck", code=130).stderr


@pytest.mark.parametrize("isolate", ["always", "never"])
@pytest.mark.parametrize(
    "words",
    [["find", *LAYER], ["run", *LAYER], ["bench", "layers.txt"], ["compile", *LAYER]],
    ids=lambda words: words[0],
)
def test_ctrl_c_ends_what_measures_and_compiles(
    environment: dict[str, str], tmp_path: Path, words: list[str], isolate: str
) -> None:
    (tmp_path / "aaa_working.py").write_text(textwrap.dedent(BUSY))
    (tmp_path / "layers.txt").write_text(f"{' '.join(LAYER)}\n")
    done = subprocess.run(
        [sys.executable, "-m", "convfind", *words],
        env=environment | {"CONVFIND_ISOLATE": isolate},
        cwd=tmp_path,
        capture_output=True,
        check=False,
        start_new_session=True,
        # A shell that starts a program in the background lets it ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode == 130


def test_an_illegal_setting_is_an_error_of_commands_that_need_it(
    environment: dict[str, str],
) -> None:
    environment["CONVFIND_FIND_MODE"] = "4"
    done = convfind(environment, "find", "conv", code=2)
    assert "error: CONVFIND_FIND_MODE: '4' is not a legal value; legal: NORMAL or 1" in done.stderr
    assert convfind(environment, "version").stdout


def test_a_database_that_cannot_be_used_is_a_warning(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    environment["CONVFIND_USER_DB_PATH"] = str(tmp_path / "file")
    environment["CONVFIND_DISABLE_PLUGINS"] = "bbb-raises, ccc-duplicate, ddd-nonsense"
    done = convfind(environment, "find", "--json", *LAYER)
    assert json.loads(done.stdout)["origin"] == "measured"
    warnings = [line for line in done.stderr.splitlines() if str(tmp_path / "file") in line]
    assert warnings
    assert all(line.startswith("warning: ") for line in warnings)


def test_the_log_level_comes_from_the_environment(environment: dict[str, str]) -> None:
    environment["CONVFIND_LOG_LEVEL"] = "debug"
    assert "Traceback" in convfind(environment, "version").stderr
    environment["CONVFIND_LOG_LEVEL"] = "error"
    assert convfind(environment, "version").stderr == ""


#: A module that convfind imports, in which the process gets Ctrl-C and time to end by it. A
#: callback would lose an exception, and a library may turn it into another.
INTERRUPTS = """
    import os, signal, time, weakref

    class Gone:
        pass

    gone = Gone()
    weakref.finalize(gone, os.kill, os.getpid(), signal.SIGINT)
    del gone
    time.sleep(10)
    os._exit(7)
    """

PROGRAM = {
    "module": ["-m", "convfind"],
    "joined": ["-mconvfind"],
    "script": ["convfind"],
}


@pytest.mark.parametrize("start", PROGRAM)
@pytest.mark.parametrize("module", ["msgspec", "lmdb", "click", "aaa_working"])
def test_ctrl_c_in_the_first_imports_is_one_line(
    environment: dict[str, str], tmp_path: Path, start: str, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(INTERRUPTS))
    script = "import sys\nfrom convfind.cli import main\nsys.exit(main())\n"
    (tmp_path / "convfind").write_text(script)
    done = subprocess.run(
        [sys.executable, *PROGRAM[start], "version"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_ctrl_c_between_imports_and_program_is_one_line(
    environment: dict[str, str], tmp_path: Path
) -> None:
    script = "import os, signal, convfind\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "convfind").write_text(script)
    done = subprocess.run(
        [sys.executable, "convfind"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize("start", [["-c", "import convfind"], ["other.py"], ["-m", "other"]])
def test_other_programs_are_told_of_ctrl_c_as_ever(
    environment: dict[str, str], tmp_path: Path, start: list[str]
) -> None:
    (tmp_path / "msgspec.py").write_text("import _thread\n_thread.interrupt_main()\n")
    (tmp_path / "other.py").write_text("import convfind\n")
    done = subprocess.run(
        [sys.executable, *start],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr


def test_who_ignores_ctrl_c_does_so_in_the_first_imports(
    environment: dict[str, str], tmp_path: Path
) -> None:
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nos._exit(7)\n"
    (tmp_path / "msgspec.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "convfind", "version"],
        env=environment,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 7
