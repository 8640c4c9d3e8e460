"""Keys open pages and fields, give no order, and can be switched off."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.support.consoles import Place, Tab


def test_keys_open_pages_until_they_are_switched_off(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open()
    keys = page.keyboard
    for key in "gh":
        keys.press(key)
    expect(page.get_by_role("heading", name="Hosts", level=2)).to_be_visible()
    keys.press("/")
    expect(
        page.get_by_role("searchbox", name="Find host, VM, operation")
    ).to_be_focused()
    # What is typed into a field is no key.
    for key in "gy?":
        keys.press(key)
    expect(page.get_by_role("heading", name="Hosts", level=2)).to_be_visible()
    page.get_by_role("heading", name="Hosts", level=2).click()
    keys.press("?")
    switch = page.get_by_role("checkbox", name="Keys with one letter are on")
    switch.uncheck()
    keys.press("Escape")
    expect(switch).to_have_count(0)
    page.reload()
    expect(page.get_by_role("heading", name="Hosts", level=2)).to_be_visible()
    for key in ("g", "n", "/"):
        keys.press(key)
    # It is on top of what the keys before would have opened.
    keys.press("?")
    expect(switch).not_to_be_checked()
    assert page.url.endswith("/console/hosts")
