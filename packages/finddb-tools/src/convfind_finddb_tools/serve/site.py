"""The web application: pages, style sheet, and each table as CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from convfind.errors import FindDbError, ProblemError
from convfind_finddb_tools.serve.guard import Guard
from convfind_finddb_tools.serve.library import Library
from convfind_finddb_tools.serve.pages import NAVIGATION, PAGES
from convfind_finddb_tools.serve.view import NotFound, Query, View

_LABELS = {path: label for path, (label, _) in NAVIGATION.items()}


def build_site(databases: Mapping[str, Path], token: str) -> Starlette:
    """Return the application for databases by name.

    Raises:
        FindDbError: one of them is missing or damaged.
    """
    library = Library(databases)
    templates = Environment(
        loader=PackageLoader("convfind_finddb_tools.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (files("convfind_finddb_tools.serve") / "templates/style.css").read_text("utf-8")

    def page(request: Request) -> Response:
        query = dict(request.query_params)
        try:
            view = PAGES[request.url.path](library, query)
        except NotFound as exc:
            return _error(templates, str(exc), 404)
        except (FindDbError, ProblemError) as exc:
            return _error(templates, str(exc), 500)
        return _answer(templates, request.url.path, query, view)

    def sheet(_: Request) -> Response:
        return Response(style, media_type="text/css")

    routes = [*(Route(path, page) for path in PAGES), Route("/style.css", sheet)]
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token)])


def _answer(templates: Environment, path: str, query: Query, view: View) -> Response:
    table = view.table.sorted_by(query.get("sort", ""), descending=query.get("order") == "desc")
    name = f"convfind-{path.strip('/') or 'devices'}"
    if query.get("format") == "json":
        return JSONResponse(table.records())
    if query.get("format") == "csv":
        disposition = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
        return Response(table.csv(), media_type="text/csv", headers=disposition)
    number = query.get("page", "1")
    table = table.at_page(int(number) if number.isdecimal() and len(number) < 10 else 1)

    def changed(**changes: object) -> str:
        return f"{path}?{urlencode({**query, **changes})}"

    text = templates.get_template("page.html").render(
        view=view, table=table, path=path, navigation=_LABELS, changed=changed
    )
    return HTMLResponse(text)


def _error(templates: Environment, message: str, code: int) -> Response:
    text = templates.get_template("error.html").render(message=message, navigation=_LABELS, path="")
    return HTMLResponse(text, code)
