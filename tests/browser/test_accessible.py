"""axe finds nothing on any page, wide and narrow, light and dark."""

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.support.consoles import AXE, LOOKS, Place, Tab, findings, left_out

PATHS = (
    "",
    "campaigns",
    "campaigns/microcode?host=c1-r0-0",
    "campaigns/microcode?as=table",
    "campaigns/microcode/report",
    "reports",
    "hosts?host=c1-r0-0",
    "find?q=c1-",
    "waits?tenant=shop",
    "history",
    "wall",
    "plan",
)


@pytest.fixture(scope="module")
def busy(shared: Place) -> Place:
    """Return a service with something in each list."""
    shared.start_campaign()
    shared.ask("/v1/fail", {"names": ["shop-c1-r0-0", "bank-c2-r1-2"]})
    return shared


@pytest.mark.skipif(not AXE.exists(), reason="no axe here: make .build/axe/axe.min.js")
@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_axe_finds_nothing(
    busy: Place,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
    size: dict[str, int],
    scheme: str,
) -> None:
    # axe itself is a script that the policy of the pages forbids.
    context = new_context(viewport=size, color_scheme=scheme, bypass_csp=True)
    tab = new_tab(busy, context)
    page = tab.page
    for path in PATHS:
        tab.open(path)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert findings(page) == [], path
    assert left_out(page, PATHS, who="operator") == []
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert findings(page) == []
    page.keyboard.press("Escape")
    tab.open("")
    page.get_by_role("checkbox", name="shop-c1-r0-0").check()
    page.get_by_role("button", name="Mark restored…").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert findings(page) == []
