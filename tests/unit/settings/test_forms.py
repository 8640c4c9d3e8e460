"""The forms of settings: the values that each reads, rejects and displays."""

import math

import pytest

from forewarn.instants import MINUTE, SECOND
from forewarn.settings.amounts import AMOUNT
from forewarn.settings.forms import (
    TEXT_MAX,
    Form,
    Forms,
    Option,
    bounds_of,
    flag_of,
    from_text,
    from_toml,
    shown,
)


@pytest.mark.parametrize(
    ("option", "written", "value"),
    [
        (Option(form=Forms.TEXT), "a\tb\nc", "a\tb\nc"),
        (Option(form=Forms.LINE, may_be_empty=True), "", ""),
        (Option(form=Forms.COUNT, least=-1), -1, -1),
        (Option(form=Forms.NUMBER), 2, 2.0),
        (Option(form=Forms.SWITCH), True, True),
        (Option(form=Forms.DURATION), "1m", MINUTE),
        (Option(form=Forms.DURATION, may_be_empty=True), "", None),
        (Option(form=Forms.WORD, words=("a", "b")), "b", "b"),
        (Option(form=Forms.WORD, words=("long",), is_open=True), "other", "other"),
        (Option(form=Forms.WORDS, words=("a", "b")), ["b", "a", "b"], ("b", "a")),
        (Option(form=Forms.WORDS, words=("a", "b")), "a", ("a",)),
        (Option(form=Forms.NAMES), ["x", "x"], ("x",)),
        (Option(form=Forms.NAMES, may_be_empty=True), [], ()),
    ],
)
def test_value_from_file_is_read(
    option: Option, written: object, value: object
) -> None:
    assert from_toml(option, written) == value


@pytest.mark.parametrize(
    ("option", "written", "fault"),
    [
        (Option(form=Forms.TEXT), 1, "must be a string"),
        (Option(form=Forms.TEXT), "", "must not be empty"),
        (Option(form=Forms.TEXT), "a" * (TEXT_MAX + 1), "at most 10000 characters"),
        (Option(form=Forms.TEXT), "\x07", "control characters"),
        (Option(form=Forms.LINE), "a\nb", "control characters"),
        (Option(form=Forms.COUNT), True, "must be a whole number"),
        (Option(form=Forms.COUNT), 1.5, "must be a whole number"),
        (Option(form=Forms.COUNT, least=1, most=9), 10, "must be 1 to 9, not 10"),
        (Option(form=Forms.COUNT, least=1), 0, "must be at least 1, not 0"),
        (Option(form=Forms.COUNT, most=9), 10**20, "not a number of that length"),
        (Option(form=Forms.NUMBER), "1", "must be a number"),
        (Option(form=Forms.NUMBER, least=0.5, most=2), 3, "must be 0.5 to 2, not 3"),
        (Option(form=Forms.SWITCH), "true", 'true or false, not the text "true"'),
        (Option(form=Forms.DURATION), 1, 'must be a duration in quotes, such as "15m"'),
        (Option(form=Forms.DURATION, least=SECOND), "1ms", "at least 1s, not 1ms"),
        (Option(form=Forms.DURATION, most=SECOND), "2s", "must be at most 1s"),
        (Option(form=Forms.WORD, words=("abc",)), "abd", '(did you mean "abc"?)'),
        (Option(form=Forms.WORD, words=("Freeze",), is_open=True), "Freze", "not"),
        (Option(form=Forms.NAMES), 1, "must be a list of names"),
        (Option(form=Forms.NAMES), [], "must not be empty"),
        (Option(form=Forms.NAMES, may_be_empty=True), [""], "must not be empty"),
    ],
)
def test_invalid_value_is_refused_with_a_message(
    option: Option, written: object, fault: str
) -> None:
    with pytest.raises(ValueError) as refused:
        from_toml(option, written)
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (Option(form=Forms.COUNT), "7"),
        (Option(form=Forms.NUMBER), "8.5"),
        (Option(form=Forms.SWITCH), "true"),
        (Option(form=Forms.SWITCH), "false"),
        (Option(form=Forms.DURATION), "1m"),
        (Option(form=Forms.NAMES), "a, b"),
        (Option(form=Forms.WORDS, words=("a",)), "a"),
        (Option(form=Forms.NAMES, may_be_empty=True), ""),
        (Option(form=Forms.TEXT), "a"),
    ],
)
def test_value_of_flag_is_shown_as_written(option: Option, text: str) -> None:
    assert shown(option, from_text(option, text)) == text


@pytest.mark.parametrize(
    ("form", "text", "fault"),
    [
        (Forms.COUNT, "1.5", '"1.5" is not a whole number'),
        (Forms.NUMBER, "x", '"x" is not a number'),
        (Forms.NUMBER, "nan", "must be at least 0"),
        (Forms.SWITCH, "yes", 'must be true or false, not "yes"'),
    ],
)
def test_invalid_flag_is_refused(form: Form, text: str, fault: str) -> None:
    with pytest.raises(ValueError) as refused:
        from_text(Option(form=form), text)
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (Option(form=Forms.DURATION, least=SECOND), " At least `1s`."),
        (
            Option(form=Forms.DURATION, least=SECOND, most=MINUTE),
            " At least `1s`, at most `1m`.",
        ),
        (Option(form=Forms.DURATION, most=MINUTE), " At most `1m`."),
        (Option(form=Forms.DURATION), ""),
        (Option(form=Forms.COUNT, least=1, most=9), " From `1` to `9`."),
        (Option(form=Forms.COUNT, most=math.inf), ""),
        (Option(form=Forms.TEXT), ""),
    ],
)
def test_reference_shows_the_bounds(option: Option, told: str) -> None:
    assert bounds_of(option) == told


def test_missing_value_is_shown_as_empty_text() -> None:
    assert shown(Option(form=Forms.DURATION), None) == ""
    assert flag_of("log.level") == "--log-level"


@pytest.mark.parametrize("text", ["0", "101", "0%", "101%", "-1", "few", "", "5 %"])
def test_an_amount_has_the_same_bounds_in_a_flag_as_in_a_file(text: str) -> None:
    option = Option(form=AMOUNT, least=1, most=100)
    with pytest.raises(ValueError, match=r"^must be "):
        from_text(option, text)
    assert str(from_text(option, "100")) == "100"
    assert str(from_text(option, "2.5%")) == "2.5%"
    large = Option(form=AMOUNT, most=1_000_000)
    assert str(from_text(large, "1000000")) == "1000000"
