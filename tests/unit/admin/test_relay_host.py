"""The VMs of one host, as its relay knows them, and the lines of its stream."""

import json

from forewarn.admin import limits
from forewarn.admin.relay_host import Host


def test_digest_depends_on_all_texts_and_on_the_host_but_on_no_order() -> None:
    views, guests = {"a": '{"a":1}', "b": '{"b":1}'}, {"web_0": '{"c":1}'}
    one, other = Host("h1", 0), Host("h1", 0)
    one.put("views", views, 1)
    one.put("guests", guests, 1)
    other.put("guests", guests, 3)
    other.put("views", dict(reversed(views.items())), 4)
    assert one.digest == other.digest
    elsewhere = Host("h2", 0)
    elsewhere.put("views", views, 1)
    elsewhere.put("guests", guests, 1)
    assert elsewhere.digest != one.digest
    other.set("views", "a", '{"a":2}', 5)
    assert other.digest != one.digest
    other.set("views", "a", '{"a":1}', 6)
    assert other.digest == one.digest
    other.put("guests", {}, 7)
    assert other.digest != one.digest


def test_changes_after_a_number_are_those_of_the_latest_change_of_each_object() -> None:
    host = Host("h1", 0)
    host.put("views", {"v1": '"v1"', "v2": '"v2"'}, 1)
    host.put("guests", {"g1": '"g1"'}, 2)
    assert host.set("views", "v1", '"new"', 3)
    assert json.loads(host.message(2, "1.3.x"))["views"] == ["new"]
    both = json.loads(host.message(1, "1.3.x"))
    assert (both["views"], both["guests"]) == (["new"], ["g1"])
    whole = json.loads(host.message(None, "1.3.x"))
    assert sorted(whole["views"]) == ["new", "v2"]
    assert "views" not in json.loads(host.message(3, "1.3.x"))


def test_names_that_are_gone_are_kept_within_a_bound() -> None:
    host = Host("h1", since=0)
    for number in range(limits.RELAY_GONE_MAX + 1):
        host.put("guests", {f"vm_{number}": "{}"}, number)
        assert len(host.gone) <= limits.RELAY_GONE_MAX
    host.put("guests", {}, limits.RELAY_GONE_MAX + 1)
    # A relay that continues from before the bound needs everything.
    assert host.since == limits.RELAY_GONE_MAX + 1
