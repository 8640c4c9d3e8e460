"""Campaign files become values; the messages about invalid ones are in `settings`."""

from pathlib import Path

import pytest

from forewarn.campaigns import options
from forewarn.campaigns.file import CampaignFileError, read_campaign
from forewarn.campaigns.model import (
    Amount,
    Budget,
    Campaign,
    Check,
    Expectation,
    GroupBudget,
    Impact,
    Order,
    Phase,
    Selection,
    Stage,
    Step,
    Tolerance,
)
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.windows import Window
from forewarn.instants import HOUR, MINUTE

PAGE = Path("docs/reference/campaign-file.md")

SMALLEST = """\
[campaign]
name = "kernel"
reason = "CVE-2026-1234"
impact = "reboot"
select = { all = true }
"""


def example() -> str:
    """Return the example file of the reference page."""
    _, _, after = PAGE.read_text(encoding="utf-8").partition("```toml\n")
    return after.partition("```")[0]


def test_example_of_the_page_is_read() -> None:
    assert read_campaign(example(), name="bios.toml") == Campaign(
        name="bios-2.19",
        reason="CVE-2026-1234",
        impact=Impact.LIVE_MIGRATE,
        order=Order.AUTO,
        priority=5,
        select=Selection(
            cluster=("a",), labels=(("model", ("r7525",)),), exclude=("a-r1-h07",)
        ),
        steps=(
            Step(phase=Phase.WORK, name="flash", arguments=(("version", "2.19"),)),
            Step(phase=Phase.VERIFY, name="flashed", arguments=(("version", "2.19"),)),
        ),
        budget=Budget(
            in_flight=Amount(value=5),
            unavailable=Amount(value=3, is_percent=True),
            tenant_vms=Amount(value=10, is_percent=True),
            overlap_notice=1,
            by=(GroupBudget(label="rack", most=Amount(value=1)),),
        ),
        stages=(
            Stage(hosts=Amount(value=1), soak=HOUR, approval=True),
            Stage(hosts=Amount(value=5, is_percent=True), soak=2 * HOUR),
        ),
        windows=(
            Window(
                days=(0, 1, 2, 3),
                start=22 * 60,
                length=7 * HOUR,
                timezone="Europe/Berlin",
            ),
        ),
        blackouts=(
            Blackout(
                name="year-end",
                begins="2026-12-24T18:00",
                ends="2027-01-02T06:00",
                timezone="Europe/Berlin",
            ),
        ),
        tolerance=Tolerance(failures=2, of_last=50, in_a_row=1, vms_down=20),
        checks=(Check(use="error-rate"),),
        expect=Expectation(
            typical=32 * MINUTE,
            slow=44 * MINUTE,
            is_given=True,
            slow_min=44 * MINUTE,
        ),
    )


def test_example_of_the_page_has_every_table() -> None:
    text = example()
    assert [name for name in options.TABLES if f"\n{name}" not in f"\n{text}"] == []


def test_page_describes_every_key() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [
        f"{table} {key}"
        for table, keys in options.TABLES.items()
        for key, option in keys.items()
        if f"| `{key}` |" not in text or option.text not in text
    ]
    assert missing == []


def test_smallest_file_has_careful_defaults() -> None:
    campaign = read_campaign(SMALLEST, name="kernel.toml")
    assert campaign.budget == Budget(in_flight=Amount(value=1))
    assert [str(stage.hosts) for stage in campaign.stages] == ["1", "1%", "10%"]
    assert campaign.windows == ()
    assert campaign.expect == Expectation(typical=30 * MINUTE, slow=45 * MINUTE)


def test_blackouts_recur_or_have_two_times() -> None:
    text = (
        f'{SMALLEST}[[campaign.blackout]]\nname = "nights"\nstart = "00:00"\n'
        'length = "6h"\n[[campaign.blackout]]\nname = "easter"\n'
        "from = 2027-03-26\nuntil = 2027-03-29T06:00:00\n"
    )
    nights, easter = read_campaign(text, name="kernel.toml").blackouts
    assert nights.window == Window(days=tuple(range(7)), start=0, length=6 * HOUR)
    assert (easter.begins, easter.ends) == ("2027-03-26T00:00", "2027-03-29T06:00")


def test_one_duration_sets_the_other() -> None:
    for written, typical, slow in (
        ('typical = "2h"', 2 * HOUR, 2 * HOUR),
        ('slow = "10m"', 10 * MINUTE, 10 * MINUTE),
        ('slow = "50m"', 30 * MINUTE, 50 * MINUTE),
    ):
        text = f"{SMALLEST}[campaign.expect]\n{written}\n"
        expect = read_campaign(text, name="kernel.toml").expect
        assert (expect.typical, expect.slow) == (typical, slow)


def test_percentage_is_rounded_down_but_to_at_least_one() -> None:
    amount = Amount(value=4, is_percent=True)
    assert [amount.of(total) for total in (1, 49, 50, 99, 100)] == [1, 1, 2, 3, 4]
    assert str(amount) == "4%"


def test_text_for_tenants_is_a_short_line() -> None:
    text = SMALLEST + 'description = "We replace a fan."\n'
    assert read_campaign(text, name="a.toml").description == "We replace a fan."
    longer = SMALLEST + f'description = "{"x" * 501}"\n'
    with pytest.raises(CampaignFileError, match="must have at most 500 characters"):
        read_campaign(longer, name="a.toml")
