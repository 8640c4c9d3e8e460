"""A browser at the console of a real service, with a small fleet and a campaign."""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    ConsoleMessage,
    Error,
    Page,
    Request,
    Route,
    ViewportSize,
    expect,
)

from tests.support.forked import PATIENCE_SECONDS
from tests.support.processes import Serving

TENANTS = ("shop", "bank")
CLUSTERS = ("c1", "c2")
RACKS = 2
HOSTS = 3
"""Hosts of each rack."""
VMS = 2
"""VMs of each host, one of each tenant."""

AXE = Path(__file__).parents[2] / ".build" / "axe" / "axe.min.js"
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

NARROW: ViewportSize = {"width": 390, "height": 844}
MIDDLE: ViewportSize = {"width": 720, "height": 900}
WIDE: ViewportSize = {"width": 1440, "height": 900}

LOOKS = [
    pytest.param(WIDE, "light", id="wide-light"),
    pytest.param(NARROW, "dark", id="narrow-dark", marks=pytest.mark.long),
    pytest.param(WIDE, "dark", id="wide-dark", marks=pytest.mark.long),
    pytest.param(NARROW, "light", id="narrow-light", marks=pytest.mark.long),
]
"""Sizes and color schemes. Axe is slow: only the long tests have more than the first."""


def campaign_text(
    reason: str = "CHG-1",
    *,
    name: str = "microcode",
    approval: bool = False,
    clusters: Sequence[str] = (),
) -> str:
    """Return the file of a campaign on the hosts of some clusters, or on all."""
    chosen = f"cluster = {json.dumps([*clusters])}" if clusters else "all = true"
    return f"""\
[campaign]
name = "{name}"
reason = "{reason}"
impact = "reboot"
select = {{ {chosen} }}
budget = {{ in_flight = 3 }}
[[campaign.stage]]
hosts = 3
approval = {json.dumps(approval)}
"""


def fleet() -> str:
    """Return the file of a fleet with two clusters of two racks."""
    lines = [f'[[tenant]]\nname = "{tenant}"\n' for tenant in TENANTS]
    lines += [
        f'[[scope]]\nname = "{tenant}-{cluster}-{rack}{host}"\ntenant = "{tenant}"\n'
        'kind = "availability-set"\n'
        for tenant in TENANTS
        for cluster in CLUSTERS
        for rack in range(RACKS)
        for host in range(HOSTS)
    ]
    for cluster in CLUSTERS:
        for rack in range(RACKS):
            for host in range(HOSTS):
                name = f"{cluster}-r{rack}-{host}"
                lines.append(
                    f'[[host]]\nname = "{name}"\nzone = "1"\ncluster = "{cluster}"\n'
                    f'rack = "{cluster}-r{rack}"\ncapacity = {2 * VMS}\n'
                )
                lines += [
                    f'[[vm]]\nname = "{tenant}-{name}"\nhost = "{name}"\n'
                    f'scope = "{tenant}-{cluster}-{rack}{host}"\n'
                    'listen = "127.0.0.1:0"\n'
                    for tenant in TENANTS
                ]
    return "\n".join(lines)


class Place:
    """A service with a fleet, whose console is looked at."""

    def __init__(
        self,
        directory: Path,
        *,
        fleet_text: str = "",
        seconds: float = PATIENCE_SECONDS,
        **settings: str,
    ) -> None:
        """Start the service in a directory, with a fleet of its own if one is given.

        It must be ready after so many `seconds`.
        """
        self._directory = directory
        self._fleet = fleet_text or fleet()
        self._settings = {"admin_listen": "127.0.0.1:0", **settings}
        self.serving = Serving(directory, self._fleet, **self._settings)
        self.serving.wait_ready(seconds)
        self.url = self.serving.urls["operators"]

    def ask(self, path: str, body: object = None) -> Any:
        """Return what the operator API answers."""
        return self.serving.admin(path, body)

    def start_campaign(
        self,
        reason: str = "CHG-1",
        *,
        name: str = "microcode",
        approval: bool = False,
        clusters: Sequence[str] = (),
    ) -> str:
        """Start a campaign on the hosts of some clusters, or on all; return its ID.

        With `approval`, it waits for one after the first three hosts.
        """
        return self.start(
            campaign_text(reason, name=name, approval=approval, clusters=clusters)
        )

    def start(self, text: str) -> str:
        """Start a campaign as its file says; return its ID."""
        plan = self.ask("/v1/campaigns/plan", {"text": text})
        order = {"text": text, "digest": plan["digest"]}
        return self.ask("/v1/campaigns", order)["campaign"]

    def restart(self) -> None:
        """Start the service again at the same address, after it was killed."""
        address = urlsplit(self.url).netloc
        settings = {**self._settings, "admin_listen": address}
        self.serving = Serving(self._directory, self._fleet, **settings).wait_ready()

    def kill(self) -> None:
        """End the service without a warning."""
        self.serving.kill()


CONNECTIONS_LOST_MAX = 3
"""Requests beside a page that are sent again: the service closes a connection that was idle
for some seconds, and on a slow machine the next request can be on its way by then."""


class Tab:
    """A page of the console. Any message in the browser's console is a failure."""

    def __init__(
        self, page: Page, url: str, *, expected: Callable[[str], bool]
    ) -> None:
        """Use an empty page; `expected` tells which messages are none of a mistake."""
        self.page = page
        self._url = url
        self._expected = expected
        self.said: list[str] = []
        self.streams = 0
        self.page.on("console", self._hear)
        self.page.on("pageerror", self._note_error)
        self.page.on("request", self._note)

    def leave(self) -> None:
        """Hear nothing more of the page."""
        self.page.remove_listener("console", self._hear)
        self.page.remove_listener("pageerror", self._note_error)
        self.page.remove_listener("request", self._note)

    def _hear(self, message: ConsoleMessage) -> None:
        text = f"{message.type}: {message.text} ({message.location.get('url')})"
        if not self._expected(text):
            self.said.append(text)

    def _note_error(self, error: Error) -> None:
        self.said.append(str(error))

    def _note(self, request: Request) -> None:
        self.streams += "/v1/watch" in request.url

    def open(self, path: str = "") -> Page:
        """Open a path of the console, and return when it follows the stream."""
        self.page.goto(f"{self._url}/console/{path}")
        expect(self.page.locator(".live.live")).to_be_visible()
        return self.page


def changed(page: Page, path: str, change: Callable[[Any], None]) -> None:
    """Let answers have something else in them; `path` is a pattern of their addresses."""

    def answer(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        change(body)
        route.fulfill(response=response, json=body)

    page.route(re.compile(path), answer)


ROUTES = """async () => {
  const [{src}] = document.querySelectorAll("script[type=module]");
  const {ROUTES} = await import(src.replace("main.js", "pages.js"));
  return ROUTES.map(({path, who}) => [path.source, who]);
}"""


def left_out(page: Page, paths: Iterable[str], *, who: str) -> list[str]:
    """Return the routes of operators or of tenants that none of these paths is on.

    The open page tells its routes, so that no list of tests can miss a new one.
    """
    routes: list[tuple[str, str]] = page.evaluate(ROUTES)
    plain = [path.partition("?")[0] for path in paths]
    return [
        pattern
        for pattern, kind in routes
        if kind in (who, "both") and not any(re.search(pattern, text) for text in plain)
    ]


def findings(page: Page) -> list[str]:
    """Return what axe finds on a page, as text. The page must be without its policy."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    violations: Any = page.evaluate(
        "async (tags) => (await axe.run({runOnly: tags})).violations", AXE_TAGS
    )
    return [
        f"{violation['id']}: {violation['help']}: {[node['html'] for node in violation['nodes']][:3]}"
        for violation in violations
    ]


def chromium() -> str:
    """Return where Chromium is; empty: nowhere."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or ""
