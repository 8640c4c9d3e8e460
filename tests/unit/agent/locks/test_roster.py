"""The list of holders, as a value: whatever happens, never more than there are slots."""

import json

from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.locks import register as roster
from forewarn.agent.locks.register import Holder
from forewarn.instants import DAY, HOUR
from tests.support.agent_journals import START

names = st.text(min_size=1, max_size=12)
times = st.integers(START, START + DAY)
rosters = st.dictionaries(names, st.tuples(times, times), max_size=6).map(
    lambda found: tuple(
        Holder(name=name, since=since, until=until)
        for name, (since, until) in found.items()
    )
)


def valid(found: roster.Roster, now: int) -> set[str]:
    return {holder.name for holder in found if now < holder.until}


@given(rosters)
def test_holder_list_survives_a_round_trip(found: roster.Roster) -> None:
    text = roster.text_of(found)
    assert roster.parse(text) == found
    assert set(json.loads(text)) == {"holders"}


@given(rosters, names, st.integers(1, 4), times)
def test_take_adds_one_holder_if_a_slot_is_free(
    found: roster.Roster, name: str, slots: int, now: int
) -> None:
    before = valid(found, now)
    after = roster.taken(found, name, slots=slots, ttl=HOUR, now=now)
    if after is None:
        assert name not in before
        assert len(before) >= slots
        return
    assert valid(after, now) == before | {name}
    assert name in before or len(before) < slots
    [mine] = [holder for holder in after if holder.name == name]
    assert mine.until == now + HOUR
    # Expired holders are removed.
    assert len(after) == len(before | {name})


@given(rosters, names)
def test_releasing_leaves_all_others(found: roster.Roster, name: str) -> None:
    after = roster.without(found, name)
    assert after == tuple(holder for holder in found if holder.name != name)


def test_many_holders_are_abbreviated() -> None:
    holders = tuple(
        Holder(name=f"web_{number}", since=START + 7, until=START + HOUR)
        for number in range(8)
    )
    assert (
        roster.described(holders[:1], now=START) == "web_0 since 2026-11-21T10:00:00Z"
    )
    assert roster.described(holders, now=START).endswith(
        "web_4 since 2026-11-21T10:00:00Z and 3 more"
    )
    assert roster.described(holders, now=START + HOUR) == ""


def test_holder_names_are_truncated_and_printable() -> None:
    """A client that can write the list can write any name."""
    holder = roster.Holder(name="\x1b[2Jweb_0" + "x" * 9_000, since=0, until=2)
    message = roster.described([holder], now=1)
    assert message.isprintable()
    assert message.startswith("web_0xx")
    assert len(message) < 2 * roster.NAME_CHARACTERS
