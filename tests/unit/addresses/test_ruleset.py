"""Tests of the text for `nft`."""

from pathlib import Path

import pytest

from forewarn.addresses.file import read_plan
from forewarn.addresses.ruleset import FAMILIES, removal, ruleset

GOLDEN = Path(__file__).with_name("golden")

PLANS = {
    "routed-by-source": """
[[port]]
vm = "web_0"
interface = "tap-web0"
address = "192.0.2.4"
[[port]]
vm = "web_1"
interface = "tap-web1"
address = ["192.0.2.5", "192.0.2.6"]
mac = "52:54:00:00:00:05"
""",
    "routed-by-listener": """
way = "listener"
[[port]]
vm = "web_0"
interface = "tap-web0"
listen = "169.254.169.254:8301"
[[port]]
vm = "web_1"
interface = "tap-web1"
listen = "169.254.169.254:8302"
address = "192.0.2.4"
""",
    "bridged-by-source": """
listen = "169.254.169.254:8080"
[[port]]
vm = "db_0"
interface = "tap100i0"
bridge = "vmbr0"
address = "192.0.2.4"
mac = "BC:24:11:00:00:04"
[[port]]
vm = "db_1"
interface = "tap101i0"
bridge = "vmbr0"
address = "192.0.2.5"
""",
    "both-by-listener": """
way = "listener"
[[port]]
vm = "web_0"
interface = "tap-web0"
listen = "0.0.0.0:8301"
[[port]]
vm = "db_0"
interface = "tap100i0"
bridge = "vmbr0"
address = "192.0.2.4"
listen = "169.254.169.254:8302"
""",
}


@pytest.mark.parametrize("name", PLANS)
def test_ruleset_matches_the_reviewed_file(
    name: str, pytestconfig: pytest.Config
) -> None:
    text = ruleset(read_plan(PLANS[name], name="addresses.toml"))
    golden = GOLDEN / f"{name}.nft"
    if pytestconfig.getoption("--rewrite"):
        golden.write_text(text, encoding="utf-8")

    assert text == golden.read_text(encoding="utf-8")


def test_removal_declares_a_table_before_deleting_it() -> None:
    assert removal(FAMILIES) == (
        "table inet forewarn\ndelete table inet forewarn\n"
        "table bridge forewarn\ndelete table bridge forewarn\n"
    )
    assert not removal([])


def test_plan_without_addresses_is_accepted() -> None:
    text = PLANS["routed-by-listener"].replace('address = "192.0.2.4"\n', "")
    assert "elements" not in ruleset(read_plan(text, name="addresses.toml"))
