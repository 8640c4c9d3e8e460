"""The aliases of ids: a permutation for each tenant, which only the key reverses."""

import re

from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.transactions import aliases
from forewarn.control.transactions.aliases import Aliases
from forewarn.ids import RandomIds, place_of

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
SHORTS = st.sampled_from((10, 16, 20)).flatmap(
    lambda length: st.text(LETTERS, min_size=length, max_size=length)
)
IDS = st.builds("{}-{}".format, st.sampled_from(("op", "rq", "ro")), SHORTS)
NAMES = st.text(min_size=1, max_size=10)
FORM = re.compile(
    rf"(?:op|rq|ro)-(?:[{LETTERS}]{{10}}|[{LETTERS}]{{16}}|[{LETTERS}]{{20}})"
)

SECRET = "5e" * 32


@given(IDS, NAMES)
def test_alias_has_the_form_of_the_id_and_is_reversed(name: str, tenant: str) -> None:
    own = Aliases(SECRET, tenant)
    alias = own.of(name)
    assert FORM.fullmatch(alias)
    assert alias[:3] == name[:3]
    assert own.real(alias) == name
    # It is a bijection: each id is the alias of another.
    assert own.of(own.real(name)) == name
    assert Aliases(SECRET, tenant).of(name) == alias


@given(st.sets(IDS, min_size=2, max_size=50))
def test_different_ids_have_different_aliases(names: set[str]) -> None:
    own = Aliases(SECRET, "shop")
    assert len({own.of(name) for name in names}) == len(names)


@given(IDS, st.lists(NAMES, min_size=2, max_size=5, unique=True))
def test_no_two_tenants_have_the_same_alias(name: str, tenants: list[str]) -> None:
    seen = {Aliases(SECRET, tenant).of(name) for tenant in tenants}
    assert len(seen) == len(tenants)
    assert name not in seen


@given(SHORTS)
def test_aliases_of_another_store_or_kind_differ(letters: str) -> None:
    own, other = Aliases(SECRET, "shop"), Aliases("", "shop")
    assert own.of(f"op-{letters}") != other.of(f"op-{letters}")
    kinds = {own.of(f"{kind}-{letters}")[3:] for kind in ("op", "rq", "ro")}
    assert len(kinds) == 3


def test_ids_of_one_request_share_a_prefix_and_their_aliases_do_not() -> None:
    own = Aliases(SECRET, "shop")
    names = RandomIds(1).shorts("op", 1_000, place=place_of(3, 7))
    assert len({name[:7] for name in names}) == 1
    seen = [own.of(name) for name in names]
    assert len(set(seen)) == 1_000
    assert len({alias[:7] for alias in seen}) > 950
    # Each letter stands at each place about equally often.
    for place in range(3, 19):
        assert {alias[place] for alias in seen} == set(LETTERS)


@given(st.text())
def test_text_that_is_not_an_id_stays_unchanged(text: str) -> None:
    own = Aliases(SECRET, "shop")
    assert aliases.is_id(text) is (FORM.fullmatch(text) is not None)
    if not aliases.is_id(text):
        assert own.of(text) == own.real(text) == text


def test_aliases_of_short_ids_are_stable() -> None:
    own = Aliases(SECRET, "shop")
    assert own.of("op-4h7k2m9xqa") == "op-m872qba0d4"


def test_entries_have_digests_of_their_tenant() -> None:
    shop, bank = Aliases(SECRET, "shop"), Aliases(SECRET, "bank")
    entry = "000001.000000000001"
    assert shop.of_entry(entry) != bank.of_entry(entry)
    assert shop.of_entry(entry) != shop.of_entry("000001.000000000002")
    assert re.fullmatch("[0-9a-f]{16}", shop.of_entry(entry))
