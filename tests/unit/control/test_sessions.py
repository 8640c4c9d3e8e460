"""Passes of the console as texts: signed, of one kind, and of one version."""

import base64
import hmac
import json
from dataclasses import replace

import pytest

from forewarn.control.sessions import (
    Pass,
    PassKind,
    has_proof,
    pass_in,
    proof_of,
    text_of,
)

KEY = b"k" * 32
GIVEN = Pass(
    kind=PassKind.SESSION,
    pass_id="0" * 32,
    token_id="tk-1",
    name="",
    proof=proof_of(KEY, "digest"),
    ends_at=1_000_000,
)


def signed(members: object) -> str:
    """Return a text that this store has signed, with any members."""
    body = base64.urlsafe_b64encode(json.dumps(members).encode()).rstrip(b"=")
    mac = hmac.digest(KEY, b"pass:" + body, "sha256").hex()
    return f"{body.decode()}.{mac}"


@pytest.mark.parametrize("kind", PassKind)
@pytest.mark.parametrize("name", ["", "unix:dora", "alice", "x" * 64])
def test_pass_is_read_back_by_its_kind_only(kind: PassKind, name: str) -> None:
    given = replace(GIVEN, kind=kind, name=name)
    text = text_of(KEY, given)
    other = next(pass_kind for pass_kind in PassKind if pass_kind is not kind)
    assert pass_in(KEY, text, kind) == given
    assert pass_in(KEY, text, other) is None
    assert pass_in(b"l" * 32, text, kind) is None


@pytest.mark.parametrize("place", range(0, 200, 7))
def test_changed_text_is_no_pass(place: int) -> None:
    text = text_of(KEY, GIVEN)
    place %= len(text)
    changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
    assert pass_in(KEY, changed, PassKind.SESSION) is None


@pytest.mark.parametrize(
    "members", [[], {}, "session", None, ["session"], ["session", *["x"] * 6]]
)
def test_pass_of_another_version_is_none(members: object) -> None:
    assert pass_in(KEY, signed(members), PassKind.SESSION) is None


def test_proof_is_that_of_one_token_and_one_store() -> None:
    assert has_proof(KEY, GIVEN, "digest")
    assert not has_proof(KEY, GIVEN, "other")
    assert not has_proof(b"l" * 32, GIVEN, "digest")
    assert not has_proof(KEY, replace(GIVEN, proof=""), "digest")


def test_end_is_the_first_instant_at_which_a_pass_is_over() -> None:
    assert not GIVEN.is_over(now=GIVEN.ends_at - 1)
    assert GIVEN.is_over(now=GIVEN.ends_at)
