"""Pages of a fleet with 100,000 hosts: they come, search and redraw as those of a small one."""

import logging
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Response, expect

from forewarn.clock import SystemClock
from tests.support.consoles import Place, Tab, campaign_text
from tests.support.processes import eventually, http

# The fleet alone takes a minute to load.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

LOG = logging.getLogger(__name__)
"""Tells the figures: pytest --log-cli-level=INFO."""

CLUSTERS = 250
RACKS = 10
PER_RACK = 40
HOSTS = CLUSTERS * RACKS * PER_RACK

LAST = f"c{CLUSTERS - 1:03}"
"""The last cluster, whose hosts come last."""

BEGIN_SECONDS = 400.0
"""Timeout for the start of the service, the plan of the campaign and its beginning, each."""
ROWS_SECONDS = 120.0
"""Timeout for the rows of a page: on a machine under load, they can take half a minute."""
PAGE_SECONDS = 5.0
"""Maximum processor time of a page until it shows its rows."""
SCRIPT_MS = 100
"""Maximum processor time of the script for one redraw, and for the messages of the stream
and the lists before it: 40 ms, while a dozen processes share the two cores."""
HEAP_MIB = 150
"""Memory of a tab."""
ROWS_MAX = 120
"""Rows of a timeline in the document."""
FIRST_ANSWER_BYTES = 100_000
"""Size of an answer that names all clusters: their racks are fetched when one opens them."""

REDRAWS = """() => {
  const later = window.requestAnimationFrame.bind(window);
  window.redraws = 0;
  window.requestAnimationFrame = (call) => later((at) => {
    call(at);
    window.redraws++;
  });
}"""
REDRAWS_MIN = 20
"""Redraws of which the mean counts."""


def fleet() -> str:
    """Return the file of a fleet with 250 clusters, and a VM on the last host."""
    hosts = "\n".join(
        f'[[host]]\nname = "c{cluster:03}-r{rack:02}-{host:02}"\nzone = "1"\n'
        f'cluster = "c{cluster:03}"\nrack = "c{cluster:03}-r{rack:02}"\n'
        for cluster in range(CLUSTERS)
        for rack in range(RACKS)
        for host in range(PER_RACK)
    )
    last = f"{LAST}-r{RACKS - 1:02}-{PER_RACK - 1:02}"
    return f'{hosts}\n[[vm]]\nname = "vm-0"\nhost = "{last}"\n'


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return a service with 100,000 hosts and a campaign on all of them."""
    place = Place(
        tmp_path_factory.mktemp("large"),
        fleet_text=fleet(),
        seconds=BEGIN_SECONDS,
        timing_speed="60",
    )
    order = {"text": campaign_text()}
    for path in ("/plan", ""):
        url = f"{place.url}/v1/campaigns{path}"
        status, answer = http(url, order, seconds=BEGIN_SECONDS)
        assert status < 300, answer
        order.setdefault("digest", answer.get("digest", ""))
    eventually(
        lambda: place.ask("/v1/campaigns/microcode"),
        lambda shown: shown["hosts"] == HOSTS and shown["in_flight"] > 0,
        what="the first hosts of the campaign",
    )
    yield place
    place.kill()


class Measured:
    """Measurements of a page of a large fleet."""

    def __init__(self, page: Page) -> None:
        self._clock = SystemClock()
        self._page = page
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.took: dict[str, tuple[float, float]] = {}
        """Seconds until the first rows, and those of a processor, by what was done."""
        self.sizes: dict[str, int] = {}
        """Bytes of the answers that name all clusters."""
        page.on("response", self._weigh)

    def _weigh(self, response: Response) -> None:
        if response.url.endswith(("/fleet/overview", "/tree")):
            self.sizes[response.url] = int(response.headers["content-length"])

    def metric(self, name: str) -> float:
        """Return a figure of Chromium about the page; times are those of a processor."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == name)

    def heap_mib(self) -> float:
        """Return the memory of the page's objects that are in use."""
        self._session.send("HeapProfiler.collectGarbage")
        return self.metric("JSHeapUsedSize") / 2**20

    def timed(self, name: str, act: Callable[[], object], row: str) -> None:
        """Do something, and wait for a row that it shows."""
        began, used = self._clock.monotonic(), self.metric("TaskDuration")
        act()
        shown = self._page.get_by_role("row", name=row).first
        expect(shown).to_be_visible(timeout=1000 * ROWS_SECONDS)
        now = self.metric("TaskDuration")
        # Another process of Chromium counts from zero.
        used = now - used if now >= used else now
        self.took[name] = (round(self._clock.monotonic() - began, 2), round(used, 2))

    def script_ms(self) -> float:
        """Return the processor time of the script for one of the next redraws."""
        self._page.evaluate(REDRAWS)
        used = self.metric("ScriptDuration")
        redraws = eventually(
            lambda: self._page.evaluate("window.redraws"),
            lambda count: count >= REDRAWS_MIN,
            what="the redraws of the page",
        )
        return 1000 * (self.metric("ScriptDuration") - used) / redraws


def test_pages_of_100000_hosts_come_search_and_redraw(
    large: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(large)
    page = tab.page
    measured = Measured(page)
    timed = measured.timed
    timed("Now", lambda: tab.open(""), "c000")
    expect(page.get_by_role("region", name="Clusters")).to_contain_text(
        f"{HOSTS:,} hosts"
    )
    timed("Hosts", lambda: tab.open("hosts"), "c000-r00-00")
    expect(page.get_by_text(f"{HOSTS:,} hosts, 1 VM")).to_be_visible()
    field = page.get_by_label("Host, VM, rack or cluster")

    def search() -> None:
        field.fill("c249-r09")
        field.press("Enter")

    timed("search", search, "c249-r09-39")
    expect(page.get_by_role("row")).to_have_count(1 + PER_RACK)
    timed("campaign", lambda: tab.open("campaigns/microcode"), "cluster c000")
    rows = page.locator(".row")
    expect(rows).not_to_have_count(0)
    assert rows.count() <= ROWS_MAX
    # Nothing opens by itself in this cluster, which comes last.
    page.locator('.row[data-id="c:c000"]').focus()
    timed("last cluster", lambda: page.keyboard.press("End"), f"cluster {LAST}")
    for name, row, first in (
        ("a cluster", f"c:{LAST}", "racks r00"),
        ("its racks", f"f:{LAST}/{LAST}-r00", f"rack {LAST}-r00"),
        ("a rack", f"r:{LAST}/{LAST}-r00", f"{PER_RACK} hosts of rack {LAST}-r00"),
        ("its later hosts", f"p:{LAST}/{LAST}-r00", f"{LAST}-r00-00"),
    ):
        timed(f"open {name}", page.locator(f'.row[data-id="{row}"]').click, first)
    assert rows.count() <= ROWS_MAX
    script, heap = measured.script_ms(), measured.heap_mib()
    took, sizes = measured.took, measured.sizes
    LOG.info("%s s; %s bytes", took, [*sizes.values()])
    LOG.info("script of a redraw %.1f ms; %.1f MiB", script, heap)
    assert len(sizes) >= 2
    assert max(sizes.values()) <= FIRST_ANSWER_BYTES, sizes
    assert max(used for _, used in took.values()) <= PAGE_SECONDS, took
    assert script <= SCRIPT_MS
    assert heap <= HEAP_MIB
