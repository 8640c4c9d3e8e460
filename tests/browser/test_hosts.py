"""The hosts of a fleet are found by the service, however large the fleet is."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.consoles import Place, Tab, fleet

SPARE = """
[[host]]
name = "spare-1"
zone = "1"
cluster = "c2"
rack = "c2-r1"
"""
"""A host whose name does not begin with those of its places."""


def test_hosts_are_found_by_name_rack_and_cluster(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fleet/apply", {"text": fleet() + SPARE})
    page = new_tab(place).open("hosts?q=c1-r1")
    rows = page.get_by_role("row")
    expect(rows).to_have_count(1 + 3)
    expect(page.get_by_text("13 hosts, 24 VMs")).to_be_visible()
    field = page.get_by_label("Host, VM, rack or cluster")
    for text, hosts in (("c2", 7), ("c2-r1", 4), ("c1-r0-", 3), ("c1-r0-1", 1)):
        field.fill(text)
        field.press("Enter")
        expect(rows).to_have_count(1 + hosts)
    field.fill("bank-c2-r1")
    field.press("Enter")
    expect(page.get_by_role("link", name="bank-c2-r1-2")).to_be_visible()
    # A table of VMs, and no host.
    expect(rows).to_have_count(1 + 3)
    page.get_by_role("link", name="bank-c2-r1-2").click()
    drawer = page.get_by_role("complementary", name="c2-r1-2")
    expect(drawer.get_by_role("row", name="shop-c2-r1-2")).to_be_visible()
    field.fill("narwhal")
    field.press("Enter")
    expect(page.get_by_text("No name begins with “narwhal”")).to_be_visible()
    # Announced work is shown as well.
    place.start_campaign(clusters=["c1"])
    field.fill("c1-r0")
    field.press("Enter")
    expect(page.get_by_role("row", name="c1-r0-0")).to_contain_text("announced")


@pytest.mark.long
def test_host_that_another_operator_cordons_is_shown_so(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    # The rack can be asked for once more after it was removed.
    page = new_tab(place, statuses=[404]).open("hosts?q=c1-r1")
    row = page.get_by_role("row", name="c1-r1-0")
    expect(row).to_contain_text("up")
    place.ask("/v1/host-cordon", {"hosts": ["c1-r1-0"], "reason": "DIMM tomorrow"})
    expect(row).to_contain_text("cordoned")
    expect(row).to_contain_text("DIMM tomorrow")
    expect(row).to_contain_text("shop-c1-r1-0")
    place.ask("/v1/fleet/apply", {"text": fleet().partition("[[host]]")[0]})
    expect(page.get_by_text("0 hosts, 0 VMs")).to_be_visible()
