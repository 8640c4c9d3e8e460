"""Each dialog of an order says what the service counts; axe finds nothing in it, and Esc leads back.

One service has a campaign that runs, one that a failing check has halted, and one with a
failed host.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import (
    BrowserContext,
    Locator,
    Page,
    Request,
    ViewportSize,
    expect,
)

from tests.support.consoles import (
    AXE,
    MIDDLE,
    NARROW,
    WIDE,
    Place,
    Tab,
    campaign_text,
    findings,
    fleet,
)
from tests.support.processes import eventually

# The check is asked every five seconds, and axe looks at many dialogs.
pytestmark = pytest.mark.long

SIZES = [
    pytest.param(MIDDLE, id="middle"),
    pytest.param(NARROW, id="narrow"),
    pytest.param(WIDE, id="wide"),
]

EMPTY_HOSTS = "".join(
    f'[[host]]\nname = "{cluster}-r0-0"\nzone = "1"\ncluster = "{cluster}"\n'
    for cluster in ("c3", "c4")
)
"""Hosts without VMs, whose work begins at once. No campaign has the second."""

SETTINGS = """
[check.errors]
kind = "command"
every = "5s"
program = ["sh", "-c", "echo 'error rate 7 %'; exit 1"]
[host_step.flash]
program = ["true"]
"""

CHECKED = """\
[[campaign.check]]
use = "errors"
"""

FLASH = """\
[campaign]
name = "flash"
reason = "CVE-1"
impact = "none"
select = { cluster = "c3" }
[campaign.steps]
work = { step = "flash" }
"""

WORDS = {
    "cancelled": "cancelled without impact",
    "continues": "left to",
    "approved": "approved",
    "started": "started at once",
    "announced": "announced now",
    "planned": "planned, to come in turn",
    "ended": "ended",
    "held": "held",
    "freed": "no longer held",
}
"""The words of the pages for each part of an effect."""


@dataclass(frozen=True)
class Busy:
    """A service with something for each order."""

    place: Place
    runs: str
    """The campaign that runs."""
    halted: str
    """The campaign that its check has halted."""
    failed: str
    """The campaign with a failed host."""
    announced: str
    """A host of the campaign that runs, which is announced."""


def state(place: Place, campaign: str) -> Mapping[str, Any]:
    return place.ask(f"/v1/campaigns/{campaign}")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    directory = tmp_path_factory.mktemp("busy")
    (directory / "forewarn.toml").write_text(SETTINGS, encoding="utf-8")
    place = Place(
        directory,
        fleet_text=fleet() + EMPTY_HOSTS,
        driver_attempts="1",
        driver_simulated_host_step="100ms",
        driver_simulated_faults="work fail",
    )
    place.serving.document("shop-c1-r0-0")
    place.ask("/v1/fail", {"names": ["bank-c2-r1-2"]})
    place.ask("/v1/host-cordon", {"hosts": ["c2-r0-0"]})
    runs = place.start_campaign(clusters=["c1"])
    halted = place.start(campaign_text(name="bios", clusters=["c2"]) + CHECKED)
    failed = place.start(FLASH)
    eventually(
        lambda: state(place, halted),
        lambda found: found["state"] == "Halted",
        what="the halt by the check",
    )
    eventually(
        lambda: state(place, failed),
        lambda found: found["failed"],
        what="the failed host",
    )
    (host,) = eventually(
        lambda: place.ask(f"/v1/campaigns/{runs}/hosts?state=announced")["hosts"],
        lambda hosts: len(hosts) == 1,
        what="the first host",
    )
    yield Busy(place, runs, halted, failed, host["host"])
    place.kill()


def is_count(request: Request) -> bool:
    return request.method == "POST" and '"dry_run":true' in (request.post_data or "")


def counted(page: Page, press: Callable[[], None]) -> Any:
    """Do something after which an effect is counted; return what the service answers."""

    # The answer to a dialog that was closed can come late, so the request counts.
    with page.expect_request(is_count) as request:
        press()
    response = request.value.response()
    assert response is not None
    assert response.ok, response.text()
    answer = response.json()
    assert answer["refused"] == []
    return answer


def some(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def lines_of(answer: Mapping[str, Any]) -> Iterator[str]:
    """Return what a dialog says for a counted effect."""
    for kind, part in answer["effect"].items():
        nouns = ("event",) if kind == "approved" else ("host", "VM", "operation")
        noun, number = next(
            (noun, part[f"{noun.lower()}s"])
            for noun in nouns
            if part.get(f"{noun.lower()}s")
        )
        is_of = noun == "VM" and part.get("tenants")
        of = f" of {some(part['tenants'], 'tenant')}" if is_of else ""
        yield f"{some(number, noun)}{of} {WORDS[kind]}"
    if answer["waiting_hosts"]:
        yield f"{some(answer['waiting_hosts'], 'host')} not begun"


def check(
    page: Page,
    opener: Locator,
    title: str,
    *,
    is_counted: bool = True,
    min_lines: int = 0,
) -> None:
    """Open a dialog with the keyboard, compare and check it, and leave it with Esc."""
    opener.focus()

    def press() -> None:
        page.keyboard.press("Enter")

    expected = []
    if is_counted:
        expected = [*lines_of(counted(page, press))]
    else:
        press()
    assert len(expected) >= min_lines, expected
    dialog = page.get_by_role("dialog", name=re.compile(title))
    for line in expected:
        expect(dialog.locator(".eff")).to_contain_text(line)
    expect(dialog.locator(".eff li").first).to_be_visible()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    assert findings(page) == [], title
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    expect(opener).to_be_focused()


@pytest.fixture
def open_wide(
    busy: Busy,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
) -> Callable[..., Tab]:
    """Return what opens a tab without the policy, which forbids the script of axe."""

    def opened(size: ViewportSize, **options: Any) -> Tab:
        context = new_context(viewport=size, bypass_csp=True, **options)
        return new_tab(busy.place, context)

    return opened


needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="no axe here: make .build/axe/axe.min.js"
)


@needs_axe
@pytest.mark.parametrize("size", SIZES)
def test_each_dialog_of_operators(
    busy: Busy, open_wide: Callable[..., Tab], size: ViewportSize
) -> None:
    tab = open_wide(size)
    page = tab.page

    def check_all(path: str, *dialogs: tuple[str, str, int]) -> None:
        tab.open(path)
        for button, title, lines in dialogs:
            opener = page.get_by_role("button", name=button).first
            check(page, opener, title, min_lines=lines)

    check_all(
        "",
        ("Approve for shop…", "for shop", 1),
        ("Redeploy…", "^Redeploy bank-c2-r1-2", 1),
    )
    page.get_by_role("checkbox", name="bank-c2-r1-2").check()
    restore = page.get_by_role("button", name="Mark restored…")
    check(page, restore, "^Mark bank-c2-r1-2", min_lines=1)
    check_all("hosts?host=c1-r0-0", ("Cordon…", "^Cordon c1-r0-0", 0))
    check_all("hosts?host=c2-r0-0", ("Open…", "^Open c2-r0-0", 0))
    check_all(
        f"campaigns/{busy.runs}?host={busy.announced}",
        ("Stop", "^Stop microcode", 2),
        ("Pause…", "^Pause microcode", 0),
        ("Expedite…", f"^Expedite {busy.announced}", 1),
        ("Skip host…", f"^Skip {busy.announced}", 1),
        ("Cancel…", f"^Cancel {busy.announced}", 1),
    )
    check_all(
        f"campaigns/{busy.halted}",
        ("Override errors…", "^Resume bios despite errors", 0),
        ("Abort…", "^Abort bios", 0),
    )
    check_all(
        f"campaigns/{busy.failed}?show=failed",
        ("Retry all 1…", "^Retry all failed hosts", 0),
    )
    tab.open("plan")
    text = FLASH.replace("c3", "c4").replace('"flash"', '"next"', 1)
    page.get_by_label("The file, in TOML").fill(text)
    page.get_by_role("button", name="Plan", exact=True).click()
    opener = page.get_by_role("button", name="Start…")
    check(page, opener, "^Start next", is_counted=False)


@needs_axe
@pytest.mark.parametrize("size", SIZES)
def test_each_dialog_of_a_tenant(
    busy: Busy, open_wide: Callable[..., Tab], size: ViewportSize
) -> None:
    token = busy.place.ask(
        "/v1/tokens", {"name": f"ci-{size['width']}", "tenant": "shop"}
    )
    headers = {"Authorization": f"Bearer {token['token']}"}
    tab = open_wide(size, extra_http_headers=headers)
    page = tab.open()
    for button, title, lines in (
        ("Approve…", "^Approve the Reboot of", 1),
        ("Redeploy…", "^Redeploy", 1),
        ("Expedite…", "^Expedite the maintenance of", 0),
        ("Defer…", "^Defer the maintenance of", 0),
        ("Set windows…", "^Set the windows of", 0),
    ):
        opener = page.get_by_role("button", name=button).first
        check(page, opener, title, min_lines=lines)


def test_check_is_overridden_and_all_failed_hosts_are_retried(
    busy: Busy, new_tab: Callable[..., Tab]
) -> None:
    place = busy.place
    tab = new_tab(place)
    for path, opener, button in (
        (busy.halted, "Override errors…", "Resume despite errors"),
        (f"{busy.failed}?show=failed", "Retry all 1…", "Retry all"),
    ):
        page = tab.open(f"campaigns/{path}")
        page.get_by_role("button", name=opener).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Why?").fill("INC-77")
        dialog.get_by_role("button", name=button).click()
        expect(dialog).not_to_be_visible()
    assert state(place, busy.halted)["state"] == "Running"
    # The second attempt has no fault.
    eventually(
        lambda: state(place, busy.failed),
        lambda found: found["state"] == "Done" and not found["failed"],
        what="the end of the campaign",
    )
    entries = place.ask("/v1/history?since=1h")["entries"]
    assert [entry["why"] for entry in entries].count("INC-77") >= 2
