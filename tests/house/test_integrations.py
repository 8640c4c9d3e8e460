"""Every integration has its page, its page is true, and its module is whole."""

import re
from pathlib import Path

import pytest

from forewarn.agent.integrations import registry
from forewarn.agent.integrations.kind import HandlerKind, SinkKind
from forewarn.agent.settings import load_settings
from tests.support.recipes import toml_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "how-to" / "agent" / "integrations"

WORDS = [*registry.HANDLERS, *registry.SINKS]


def kind_of(word: str) -> HandlerKind | SinkKind:
    kind = registry.handler_kind(word) or registry.sink_kind(word)
    assert kind is not None, word
    return kind


def page(word: str) -> str:
    return (PAGES / f"{word}.md").read_text(encoding="utf-8")


def test_each_kind_is_a_handler_or_a_receiver() -> None:
    assert not set(registry.HANDLERS) & set(registry.SINKS)


def test_each_kind_has_one_page() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} - {"index"} == set(WORDS)


@pytest.mark.parametrize("word", WORDS)
def test_integration_page_lists_every_key(word: str) -> None:
    kind, text = kind_of(word), page(word)
    missing = [key for key in kind.keys if f"`{key}`" not in text]
    assert not missing, f"docs/integrations/{word}.md does not tell of {missing}"
    assert set(kind.needed) <= set(kind.keys)


@pytest.mark.parametrize("word", WORDS)
def test_examples_of_the_page_are_valid(word: str, tmp_path: Path) -> None:
    examples = [block for block in toml_blocks(page(word)) if f'"{word}"' in block]
    assert examples, f"docs/integrations/{word}.md shows no settings"
    for example in examples:
        file = tmp_path / "agent.toml"
        file.write_text(example, encoding="utf-8")
        settings = load_settings(file=str(file), environ={}, flags={})
        kinds = [setting.kind for setting in (*settings.handlers, *settings.notify)]
        assert word in kinds


def test_an_agent_runs_the_first_example_of_each_handler() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "tests" / "system").glob("test_*_agent.py")
    ]
    run = [text for text in texts if "integration_settings(" in text]
    missing = [
        word
        for word in registry.HANDLERS
        if not any(f'"{word}"' in text for text in run)
    ]
    assert not missing, f"no test in tests/system runs what their pages show: {missing}"


@pytest.mark.parametrize("word", WORDS)
def test_texts_of_its_settings_are_sentences(word: str) -> None:
    # A key's text begins as a sentence, and its default stands in it.
    for key, option in kind_of(word).keys.items():
        assert option.text[0].isupper() or option.text[0] == "`", (word, key)
        assert option.text.endswith("."), (word, key)


FAKED = {
    "kubernetes": "Kubernetes' API server",
    "nomad": "Nomad",
    "email": "mail servers",
    "slack": "Slack",
    "teams": "Teams",
    "eventhubs": "Event Hubs",
    "eventlog": "Windows' event log",
}
"""The integrations tested only with fakes, with their names in CHANGELOG.md."""

FAKED_SINCE_0_1_0 = {"Consul"}
"""Integrations that 0.1.0 had tested only with fakes, so CHANGELOG.md lists them."""

IN_TESTS = {"docker": "containers", "podman": "containers"}
"""The names of the tests with the real program, if they differ from the integration."""

REAL = re.compile(
    r"\b(?:It|The handler|The receiver|and) was run (?:with|beside|against) "
    r"|Our tests try it with "
)
FAKE = re.compile(
    r"\b(?:against a fake|stand-in|not with \w+ itself|server of ours|tested with a test server|not run against)\b"
)


@pytest.mark.parametrize("word", WORDS)
def test_integration_page_states_whether_a_fake_was_used(word: str) -> None:
    if word in FAKED:
        assert FAKE.search(page(word)), word
    else:
        assert REAL.search(page(word)), word
        assert not FAKE.search(page(word)), word
        real = f"test_{IN_TESTS.get(word, word)}.py"
        assert (ROOT / "tests" / "real" / real).is_file()


def test_changelog_lists_integrations_tested_only_with_fakes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    [named] = re.findall(r"([^.]*) were spoken to through faithful fakes only;", text)
    assert set(re.split(r", | and ", named.strip())) == {
        *FAKED.values(),
        *FAKED_SINCE_0_1_0,
    }


def test_handler_page_lists_all_handlers() -> None:
    text = (ROOT / "docs" / "how-to" / "agent" / "handlers.md").read_text(
        encoding="utf-8"
    )
    rows = re.findall(
        r"^\| \[`(\w+)`\]\(integrations/(\w+)\.md\) \| (.*) \|$", text, re.MULTILINE
    )
    assert [(word, text) for word, _, text in rows] == [*registry.HANDLERS.items()]
    assert all(word == page for word, page, _ in rows)


def test_agent_page_lists_all_receivers() -> None:
    text = (PAGES.parent / "troubleshoot.md").read_text(encoding="utf-8")
    missing = [
        word for word in registry.SINKS if f"(integrations/{word}.md)" not in text
    ]
    assert not missing
