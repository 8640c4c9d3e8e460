"""Every integration has its page, its page is true, and its module is whole."""

import re
from pathlib import Path

import pytest

from forewarn.agent.integrations import catalog
from forewarn.agent.integrations.kind import HandlerKind, SinkKind
from forewarn.agent.settings import load_settings
from tests.support.recipes import toml_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "integrations"

WORDS = [*catalog.HANDLERS, *catalog.SINKS]


def kind_of(word: str) -> HandlerKind | SinkKind:
    kind = catalog.handler_kind(word) or catalog.sink_kind(word)
    assert kind is not None, word
    return kind


def page(word: str) -> str:
    return (PAGES / f"{word}.md").read_text(encoding="utf-8")


def test_each_word_is_one_kind() -> None:
    assert not set(catalog.HANDLERS) & set(catalog.SINKS)


def test_each_page_is_of_a_kind() -> None:
    assert {each.stem for each in PAGES.glob("*.md")} - {"index"} == set(WORDS)


@pytest.mark.parametrize("word", WORDS)
def test_its_page_tells_every_key(word: str) -> None:
    kind, text = kind_of(word), page(word)
    missing = [key for key in kind.keys if f"`{key}`" not in text]
    assert not missing, f"docs/integrations/{word}.md does not tell of {missing}"
    assert set(kind.needed) <= set(kind.keys)


@pytest.mark.parametrize("word", WORDS)
def test_its_examples_are_sound(word: str, tmp_path: Path) -> None:
    examples = [each for each in toml_blocks(page(word)) if f'"{word}"' in each]
    assert examples, f"docs/integrations/{word}.md shows no settings"
    for example in examples:
        file = tmp_path / "agent.toml"
        file.write_text(example, encoding="utf-8")
        settings = load_settings(file=str(file), environ={}, flags={})
        kinds = [each.kind for each in (*settings.handlers, *settings.notify)]
        assert word in kinds


@pytest.mark.parametrize("word", WORDS)
def test_its_module_is_loaded_when_it_is_used(word: str) -> None:
    # A key's text begins as a sentence, and its default stands in it.
    for key, option in kind_of(word).keys.items():
        assert option.text[0].isupper() or option.text[0] == "`", (word, key)
        assert option.text.endswith("."), (word, key)


def test_the_page_of_handlers_lists_them_all() -> None:
    text = (ROOT / "docs" / "agent-handlers.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[`(\w+)`\]\(integrations/(\w+)\.md\) \| (.*) \|$", text, re.MULTILINE
    )
    assert [(word, text) for word, _, text in rows] == [*catalog.HANDLERS.items()]
    assert all(word == page for word, page, _ in rows)


def test_the_page_of_the_agent_lists_all_receivers() -> None:
    text = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
    missing = [
        word for word in catalog.SINKS if f"(integrations/{word}.md)" not in text
    ]
    assert not missing
