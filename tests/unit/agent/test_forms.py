"""An event in other people's forms."""

import json
from urllib import parse

from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent import forms
from forewarn.protocol.notices import Notice
from tests.support.agent_journals import notice_of


def test_event_without_not_before_has_an_empty_not_before() -> None:
    assert forms.event_json(Notice(event_id="E1"))["NotBefore"] == ""
    assert forms.event_words(Notice(event_id="E1"))["not_before"] == ""


def test_event_id_keeps_its_original_case() -> None:
    notice = Notice(event_id="AB-1", wire_id="ab-1")
    assert forms.event_json(notice)["EventId"] == "ab-1"
    assert forms.event_words(notice)["id"] == "ab-1"
    assert forms.event_words(Notice(event_id="AB-1"))["id"] == "AB-1"


def test_all_variables_are_set_without_an_event() -> None:
    assert forms.event_json(None) == {}
    assert forms.event_words(None).keys() == forms.event_words(notice_of()).keys()


def test_json_braces_are_kept() -> None:
    template = '{"a": {"b": "{type}"}, "c": {}, "d": "{typo}"}'
    filled = forms.fill(template, {"type": 'x"y'}, forms.json_quoted)
    assert json.loads(filled) == {"a": {"b": 'x"y'}, "c": {}, "d": "{typo}"}
    assert forms.unknown_places(template, {"type": ""}) == ["typo"]


def test_inserted_values_are_not_expanded_again() -> None:
    assert forms.fill("{a}{b}", {"a": "{b}", "b": "x"}) == "{b}x"


@given(st.text(st.characters(codec=None)))
def test_any_text_is_quoted_into_a_json_string(text: str) -> None:
    assert json.loads(forms.fill('"{x}"', {"x": text}, forms.json_quoted)) == text


@given(st.text())
def test_url_quoting_matches_urllib(text: str) -> None:
    quoted = forms.percent_quoted(text)
    assert quoted == parse.quote(text, safe="")
    assert forms.percent_read(quoted) == text
    assert forms.percent_read("100%") == "100%"
    assert forms.percent_quoted(b"/a b/c:d", keep=b"/:") == "/a%20b/c:d"


@given(st.text(st.characters(codec=None)))
def test_any_text_becomes_a_valid_environment_value(text: str) -> None:
    shown = forms.variable(text * 100)
    assert "\0" not in shown
    assert len(shown.encode()) <= forms.VALUE_BYTES_MAX
