"""The pages by path."""

from __future__ import annotations

from collections.abc import Mapping

from convfind_finddb_tools.serve.comparison import compare
from convfind_finddb_tools.serve.devices import devices
from convfind_finddb_tools.serve.history import history
from convfind_finddb_tools.serve.networks import networks
from convfind_finddb_tools.serve.problem import problem
from convfind_finddb_tools.serve.problems import problems
from convfind_finddb_tools.serve.view import Page

#: Pages with their labels, in the order of the navigation.
NAVIGATION: Mapping[str, tuple[str, Page]] = {
    "/": ("Devices", devices),
    "/problems": ("Problems", problems),
    "/networks": ("Networks", networks),
    "/compare": ("Compare", compare),
    "/history": ("History", history),
}

#: All of them; the page of one problem is reached by links.
PAGES: Mapping[str, Page] = {path: page for path, (_, page) in NAVIGATION.items()} | {
    "/problem": problem
}
