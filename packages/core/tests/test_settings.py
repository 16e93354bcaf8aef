"""Every environment variable: its names, its values, its default, and its row in the documents."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import platformdirs
import pytest

from convfind.errors import SettingsError
from convfind.policy import Fallback, FindEnforce, FindMode, Isolate, OnMiss, Policy
from convfind.settings import VARIABLES, PluginSelection, Settings, plugin_selection

ENVIRONMENT_PAGE = Path(__file__).parents[3] / "docs/environment.md"

LEGAL = [
    ("CONVFIND_FIND_MODE", "normal", "find_mode", FindMode.NORMAL),
    ("CONVFIND_FIND_MODE", "Hybrid", "find_mode", FindMode.HYBRID),
    ("CONVFIND_FIND_MODE", " 7 ", "find_mode", FindMode.TRUST_VERIFY_FULL),
    ("MIOPEN_FIND_MODE", "FAST", "find_mode", FindMode.FAST),
    ("MIOPEN_FIND_MODE", "5", "find_mode", FindMode.DYNAMIC_HYBRID),
    ("CONVFIND_FIND_ENFORCE", "db_clean", "find_enforce", FindEnforce.DB_CLEAN),
    ("MIOPEN_FIND_ENFORCE", "4", "find_enforce", FindEnforce.SEARCH_DB_UPDATE),
    ("CONVFIND_COMPILE_PARALLEL_LEVEL", "12", "compile_parallel_level", 12),
    ("MIOPEN_COMPILE_PARALLEL_LEVEL", "1", "compile_parallel_level", 1),
    ("CONVFIND_IMMEDIATE_FALLBACK", "WTI", "immediate_fallback", Fallback.WTI),
    ("CONVFIND_USER_DB_PATH", "~/found", "user_db_path", Path("~/found").expanduser()),
    ("CONVFIND_DISABLE_FIND_DB", "1", "disable_find_db", True),
    ("CONVFIND_DISABLE_FIND_DB", "Off", "disable_find_db", False),
    ("CONVFIND_DISABLE_BINARY_CACHE", "yes", "disable_binary_cache", True),
    ("CONVFIND_FIND_TIME_BUDGET", "0.5", "find_time_budget", 0.5),
    ("CONVFIND_FIND_TIME_BUDGET", "0", "find_time_budget", 0.0),
    ("CONVFIND_WORKSPACE_LIMIT", "0", "workspace_limit", 0),
    ("CONVFIND_WORKSPACE_LIMIT", "3k", "workspace_limit", 3 * 1024),
    ("CONVFIND_WORKSPACE_LIMIT", "2M", "workspace_limit", 2 * 1024**2),
    ("CONVFIND_WORKSPACE_LIMIT", "1G", "workspace_limit", 1024**3),
    ("CONVFIND_ISOLATE", "Never", "isolate", Isolate.NEVER),
    ("CONVFIND_DEVICE", "opencl:cpu", "device", "opencl:cpu"),
    ("CONVFIND_LOG_LEVEL", "DEBUG", "log_level", "debug"),
    ("CONVFIND_VERBOSE", "1", "verbose", True),
    ("CONVFIND_USER_DB_PATH", "~nobody-here/x", "user_db_path", Path("~nobody-here/x")),
    ("CONVFIND_PLUGINS", "a, b", "plugins", PluginSelection(allow=frozenset("ab"))),
    ("CONVFIND_DISABLE_PLUGINS", "a,,b", "plugins", PluginSelection(deny=frozenset("ab"))),
]

ILLEGAL = [
    ("CONVFIND_FIND_MODE", "4", "DYNAMIC_HYBRID or 5"),
    ("CONVFIND_FIND_MODE", "fastest", "FAST or 2"),
    ("MIOPEN_FIND_MODE", "0", "NORMAL or 1"),
    ("MIOPEN_FIND_MODE", "5abc", "NORMAL or 1"),
    ("CONVFIND_FIND_ENFORCE", "CLEAN", "DB_CLEAN or 5"),
    ("MIOPEN_FIND_ENFORCE", "6", "NONE or 1"),
    ("CONVFIND_COMPILE_PARALLEL_LEVEL", "0", "a whole number from 1"),
    ("MIOPEN_COMPILE_PARALLEL_LEVEL", "many", "a whole number from 1"),
    ("CONVFIND_IMMEDIATE_FALLBACK", "naive", "ai, wti, gemm"),
    ("CONVFIND_DISABLE_FIND_DB", "2", "1, true, on, yes, 0, false, off, no"),
    ("CONVFIND_DISABLE_BINARY_CACHE", "maybe", "1, true"),
    ("CONVFIND_FIND_TIME_BUDGET", "-1", "seconds, 0 or more"),
    ("CONVFIND_FIND_TIME_BUDGET", "nan", "seconds, 0 or more"),
    ("CONVFIND_FIND_TIME_BUDGET", "inf", "seconds, 0 or more"),
    ("CONVFIND_FIND_TIME_BUDGET", "2s", "seconds, 0 or more"),
    ("CONVFIND_WORKSPACE_LIMIT", "-1", "K, M or G"),
    ("CONVFIND_WORKSPACE_LIMIT", "1T", "K, M or G"),
    ("CONVFIND_WORKSPACE_LIMIT", "much", "K, M or G"),
    ("CONVFIND_ISOLATE", "yes", "auto, always, never"),
    ("CONVFIND_LOG_LEVEL", "loud", "debug, info, warning, error"),
    ("CONVFIND_VERBOSE", "a lot", "1, true"),
    ("CONVFIND_COMPILE_PARALLEL_LEVEL", "9" * 5000, "a whole number from 1"),
    ("CONVFIND_WORKSPACE_LIMIT", "9" * 5000, "K, M or G"),
]


@pytest.mark.parametrize(("name", "text", "field", "value"), LEGAL)
def test_legal_value(name: str, text: str, field: str, value: object) -> None:
    assert getattr(Settings.from_environment({name: text}), field) == value


@pytest.mark.parametrize(("name", "text", "legal"), ILLEGAL)
def test_illegal_value(name: str, text: str, legal: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({name: text})
    assert caught.value.name == name
    assert caught.value.value == text
    assert legal in caught.value.allowed


def test_every_variable_is_tried() -> None:
    tried = {row[0] for row in LEGAL}
    assert tried == {name for variable in VARIABLES for name in variable.names}
    assert {variable.field for variable in VARIABLES} == {
        field.name for field in dataclasses.fields(Settings)
    }


def test_the_first_name_wins_and_the_second_is_not_looked_at() -> None:
    environ = {"CONVFIND_FIND_MODE": "fast", "MIOPEN_FIND_MODE": "nonsense"}
    assert Settings.from_environment(environ).find_mode is FindMode.FAST
    environ["CONVFIND_FIND_MODE"] = ""
    with pytest.raises(SettingsError, match="MIOPEN_FIND_MODE"):
        Settings.from_environment(environ)


def test_nothing_set_gives_the_defaults() -> None:
    settings = Settings.from_environment({variable.names[0]: " " for variable in VARIABLES})
    assert settings == Settings()
    assert settings.find_mode is None
    assert settings.find_enforce is FindEnforce.NONE
    assert settings.compile_parallel_level >= 1
    assert settings.user_db_path == platformdirs.user_data_path("convfind", appauthor=False)
    assert settings.policy == Policy.for_mode("DYNAMIC_HYBRID")


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVFIND_DEVICE", "mock:3")
    assert Settings.from_environment().device == "mock:3"


def test_the_policy_carries_what_finds_need() -> None:
    environ = {
        "CONVFIND_FIND_MODE": "FAST",
        "CONVFIND_IMMEDIATE_FALLBACK": "gemm",
        "CONVFIND_FIND_TIME_BUDGET": "2",
        "CONVFIND_WORKSPACE_LIMIT": "1K",
    }
    policy = Settings.from_environment(environ).policy
    assert policy.on_miss is OnMiss.ESTIMATE
    assert policy.fallback is Fallback.GEMM
    assert policy.time_budget == 2
    assert policy.workspace_limit == 1024


@pytest.mark.parametrize(("text", "loads"), [("all", False), ("1", False), ("0", True), ("", True)])
def test_all_plugins_can_be_disabled(text: str, loads: bool) -> None:
    selection = plugin_selection({"CONVFIND_DISABLE_PLUGINS": text})
    assert selection.selects("direct", "convfind-solvers-direct") is loads


def test_the_documented_table_is_the_table() -> None:
    rows = re.findall(r"^\| (`\w+`.*) \|$", ENVIRONMENT_PAGE.read_text(), re.MULTILINE)
    expected = [
        " | ".join(
            (
                ", ".join(f"`{name}`" for name in variable.names),
                variable.values,
                variable.default,
                variable.meaning,
            )
        )
        for variable in VARIABLES
    ]
    assert rows == expected
