"""Problems as text: network config, MIOpen's find-db key, MIOpenDriver command line."""

from __future__ import annotations

from convfind.problem.syntax.driver_line import format_driver_line, is_driver_line
from convfind.problem.syntax.miopen_key import format_miopen_key
from convfind.problem.syntax.network_config import format_network_config
from convfind.problem.text.layer_file import (
    Layer,
    distinct_layers,
    parse_layers,
    read_layer_file,
)
from convfind.problem.text.parsing import (
    parse_driver_line,
    parse_key,
    parse_miopen_key,
    parse_network_config,
    parse_problem,
)
from convfind.problem.text.text_file import read_text

__all__ = [
    "Layer",
    "distinct_layers",
    "format_driver_line",
    "format_miopen_key",
    "format_network_config",
    "is_driver_line",
    "parse_driver_line",
    "parse_key",
    "parse_layers",
    "parse_miopen_key",
    "parse_network_config",
    "parse_problem",
    "read_layer_file",
    "read_text",
]
