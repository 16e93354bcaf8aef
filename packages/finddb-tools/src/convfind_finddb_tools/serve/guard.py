"""`Guard`: lets only the holder of the token read, and tells the browser to allow nothing more."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Nothing runs in these pages, and nothing comes from elsewhere.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_COOKIE = "convfind-token"
_HOSTS = frozenset({"127.0.0.1", "localhost"})


class Guard:
    """An ASGI application before another one.

    The token comes in the address once, and then in a cookie. A request under another name than
    this machine's is refused, token or not: a page elsewhere may have a name that leads here.
    """

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        host = Headers(scope=request.scope).get("host", "").rpartition(":")
        if (host[0] if host[2].isdigit() else host[2]) not in _HOSTS:
            return PlainTextResponse("this server is for its own machine only\n", 400)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("these pages are only read\n", 405)
        given = request.query_params.get("token")
        if given is not None and self._is_right(given):
            rest = [pair for pair in parse_qsl(request.url.query) if pair[0] != "token"]
            path = "/" + request.url.path.lstrip("/")  # two of them would begin a host
            address = path + (f"?{urlencode(rest)}" if rest else "")
            response = RedirectResponse(address, 303)
            response.set_cookie(self._cookie(request), given, httponly=True, samesite="lax")
            return response
        if self._is_right(request.cookies.get(self._cookie(request), "")):
            return None
        return PlainTextResponse(
            "the address needs the token that `convfind db serve` printed\n", 403
        )

    def _cookie(self, request: Request) -> str:
        return f"{_COOKIE}-{request.url.port or 0}"  # cookies of all ports are in one jar

    def _is_right(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self._token.encode())
