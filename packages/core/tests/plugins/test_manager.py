"""Plugins that break in every way stop nothing and are recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from convfind.plugins.manager import PluginInfo, PluginManager
from convfind.settings import PluginSelection

Install = Callable[..., str]

GOOD = """
from pathlib import Path
from convfind.plugins import hookimpl

@hookimpl
def convfind_system_databases():
    return [Path(__file__).parent]
"""


def load(*names: str) -> PluginManager:
    manager = PluginManager()
    manager.load_entry_points(PluginSelection(allow=frozenset(names)))
    return manager


@pytest.mark.parametrize(
    ("code", "stage", "error"),
    [
        pytest.param("import no_such_module", "import", "no_such_module", id="import"),
        pytest.param("raise SystemExit(3)", "import", "SystemExit: 3", id="exit"),
        pytest.param("def (", "import", "SyntaxError", id="syntax"),
        pytest.param("x = 1", "validation", "no function decorated with hookimpl", id="no-hook"),
        pytest.param(
            """
            from convfind.plugins import hookimpl

            @hookimpl
            def convfind_register_solvers(registry): ...
            """,
            "validation",
            "registry",
            id="argument",
        ),
        pytest.param(
            """
            from convfind.plugins import hookimpl

            @hookimpl
            def convfind_register_solver(register): ...
            """,
            "validation",
            "unknown hook 'convfind_register_solver'",
            id="hook-name",
        ),
    ],
)
def test_a_broken_plugin_is_recorded_and_the_others_load(
    install: Install, code: str, stage: str, error: str
) -> None:
    broken, good = install("aaa-broken", code), install("bbb-good", GOOD)
    manager = load(broken, good)
    assert [info.name for info in manager.plugins] == [good]
    (failure,) = manager.failures
    assert (failure.name, failure.distribution, failure.stage) == (broken, "aaa-broken", stage)
    assert error in failure.error
    assert str(failure).startswith(f"plugin {broken} of aaa-broken failed in {stage}: ")


def test_a_refused_plugin_leaves_no_hook_behind(install: Install) -> None:
    # The first function is in order; pluggy must not keep it when the second is refused.
    half = install(
        "half",
        """
        from convfind.plugins import hookimpl

        @hookimpl
        def convfind_register_backends(register):
            raise AssertionError("called")

        @hookimpl
        def convfind_register_solvers(nonsense): ...
        """,
    )
    manager = load(half)
    assert manager.hooks("convfind_register_backends") == ()
    assert [failure.stage for failure in manager.failures] == ["validation"]


def test_an_unreadable_list_of_entry_points_is_recorded(install: Install) -> None:
    install("garbled", "", entry_points="[convfind]\nthis is no assignment\n")
    good = install("good", GOOD)
    manager = load(good)
    assert [info.name for info in manager.plugins] == [good]
    (failure,) = manager.failures
    assert "garbled" in failure.distribution
    assert failure.stage == "import"


def test_other_groups_of_entry_points_do_not_concern_us(install: Install) -> None:
    install("other", "raise AssertionError", entry_points="[console_scripts]\nnonsense\n")
    assert not load(install("good", GOOD)).failures


def test_hooks_raise_nothing_but_are_recorded_once(install: Install) -> None:
    raising = install(
        "raising",
        """
        import itertools
        from convfind.plugins import hookimpl

        count = itertools.count()

        @hookimpl
        def convfind_system_databases():
            raise ValueError(f"call {next(count)}")
        """,
    )
    manager = load(raising, install("good", GOOD))
    for _ in range(3):
        returned = [hook() for hook in manager.hooks("convfind_system_databases")]
        assert [len(results) for results in returned] == [1, 0]
    assert [failure.error for failure in manager.failures] == ["ValueError: call 0"]


def test_keyboard_interrupt_is_not_swallowed() -> None:
    from convfind.plugins import hookimpl

    class Interrupted:
        @hookimpl
        def convfind_system_databases(self) -> None:
            raise KeyboardInterrupt

    manager = PluginManager()
    manager.register(Interrupted())
    (hook,) = manager.hooks("convfind_system_databases")
    with pytest.raises(KeyboardInterrupt):
        hook()


def test_plugins_come_in_order_of_distribution_whatever_the_path_says(install: Install) -> None:
    names = [install(f"{letter}-package", GOOD) for letter in "cab"]
    infos = load(*names).plugins
    assert [info.package for info in infos] == [f"{letter}-package 1.0" for letter in "abc"]


def test_of_a_distribution_installed_twice_the_first_on_the_path_counts(
    install: Install, tmp_path: Path
) -> None:
    name = install("twice", GOOD, version="2.0")
    older = tmp_path / "older" / "twice-1.0.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: Twice\nVersion: 1.0\n")
    (older / "entry_points.txt").write_text("[convfind]\ntwice-plugin = twice_hooks\n")
    sys.path.append(str(older.parent))
    try:
        manager = load(name)
    finally:
        sys.path.remove(str(older.parent))
    assert manager.plugins == (PluginInfo(name, "twice", "2.0"),)
    assert not manager.failures


@pytest.mark.parametrize(
    ("selection", "loaded"),
    [
        (PluginSelection(allow=frozenset({"a-plugin", "b"})), "ab"),
        (PluginSelection(allow=frozenset({"a", "b"}), deny=frozenset({"b-plugin"})), "a"),
        (PluginSelection(allow=frozenset({"a"}), deny_all=True), ""),
    ],
)
def test_selection_names_entry_points_or_distributions(
    install: Install, selection: PluginSelection, loaded: str
) -> None:
    for letter in "abc":
        install(letter, GOOD)
    manager = PluginManager()
    manager.load_entry_points(selection)
    assert "".join(info.distribution for info in manager.plugins) == loaded
    left_out = {info.distribution for info in manager.disabled}
    assert left_out >= set("abc") - set(loaded)


def test_what_is_not_selected_is_not_imported(install: Install) -> None:
    install("unwanted", "raise AssertionError")
    assert not load(install("good", GOOD)).failures
    assert "unwanted_hooks" not in sys.modules


def test_an_allowed_name_that_is_not_installed_is_reported(install: Install) -> None:
    manager = load(install("good", GOOD), "good-plugn")
    (failure,) = manager.failures
    assert (failure.name, failure.stage) == ("good-plugn", "selection")
    assert "good-plugin" in failure.error
