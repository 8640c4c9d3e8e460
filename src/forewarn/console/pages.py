"""The routes of the console: one shell for all pages, and its files.

They are fixed and tell nothing about the fleet, so they need no token. `admin.gate` limits
their rate, and `admin.security` adds the headers that each response has.
"""

from collections.abc import Sequence
from functools import cached_property
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from forewarn.admin.access import CONSOLE
from forewarn.admin.answers import REVALIDATED, FixedResponse
from forewarn.console.assets import Asset, Assets, read_assets

_FILES = f"{CONSOLE}/assets"
"""The path of the files; the digest of all files follows."""

_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}
"""Headers of a file, whose path changes with its content: browsers keep it for a year."""


def console_pages() -> Sequence[BaseRoute]:
    """Return the routes of the console, which read its files with the first request."""
    pages = _Pages()
    return [
        Route(CONSOLE, _redirect),
        Route(f"{_FILES}/{{digest}}/{{name:path}}", pages.file),
        Route(f"{_FILES}{{name:path}}", _no_file),
        Route(f"{CONSOLE}/{{name:path}}", pages.page),
    ]


class _Pages:
    """The responses of the console, each created once."""

    def __init__(self) -> None:
        """Create none yet."""
        self._shells: dict[frozenset[str], FixedResponse] = {}
        """Shells by their modules: as few as there are pages."""

    async def page(self, request: Request) -> Response:
        """Return the shell, which differs only in the modules that are fetched with it."""
        modules = self._assets.modules_of(request.path_params["name"].rstrip("/"))
        if modules not in self._shells:
            text = self._assets.page(f"{_FILES}/{self._digest}", sorted(modules))
            self._shells[modules] = FixedResponse(
                HTMLResponse(text, headers=REVALIDATED)
            )
        return self._shells[modules].to(request.scope)

    async def file(self, request: Request) -> Response:
        """Return a file of these assets.

        The digest is that of another version if the page was loaded from it: the page
        must be loaded again, since files of two versions do not fit together.
        """
        digest, name = request.path_params["digest"], request.path_params["name"]
        asset = self._files.get(name) if digest == self._digest else None
        return asset.to(request.scope) if asset else await _no_file(request)

    @cached_property
    def _assets(self) -> Assets:
        return read_assets()

    @cached_property
    def _digest(self) -> str:
        return self._assets.digest

    @cached_property
    def _files(self) -> dict[str, FixedResponse]:
        return {name: _kept(asset) for name, asset in self._assets.files.items()}


def _kept(asset: Asset) -> FixedResponse:
    response = Response(asset.content, headers=_KEPT, media_type=asset.media_type)
    return FixedResponse(response)


async def _redirect(_request: Request) -> Response:
    return RedirectResponse(f"{CONSOLE}/", HTTPStatus.PERMANENT_REDIRECT)


async def _no_file(_request: Request) -> Response:
    raise HTTPException(HTTPStatus.NOT_FOUND)
