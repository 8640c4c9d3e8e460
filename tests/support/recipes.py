"""The settings that the agent's pages show, as whole files."""

import json
import re
from pathlib import Path

from forewarn.agent.core.policy import Policy
from forewarn.agent.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
AGENT_PAGE = ROOT / "docs" / "tutorials" / "protect-a-service.md"
NOTES_PAGE = ROOT / "docs" / "how-to" / "agent" / "troubleshoot.md"
DECISIONS_PAGE = ROOT / "docs" / "explanation" / "agent-decisions.md"
RULES_PAGE = ROOT / "docs" / "how-to" / "agent" / "rule-recipes.md"
HANDLERS_PAGE = ROOT / "docs" / "how-to" / "agent" / "handlers.md"

_BASE = ROOT / "examples" / "agent" / "agent.toml"
_HANDLER = re.compile(r"(?=^\[\[handler\]\])", re.MULTILINE)
_NAME = re.compile(r'^name = "(.*)"$', re.MULTILINE)


def settings_text(block: str) -> str:
    """Return a recipe with those of the usual handlers that it names and lacks."""
    own = set(_NAME.findall(block))
    missing = [
        table
        for table in _HANDLER.split(_BASE.read_text())[1:]
        for name in _NAME.findall(table)
        if name not in own and f'"{name}"' in block
    ]
    return "\n".join([block, *missing])


def toml_blocks(text: str) -> list[str]:
    """Return the settings that a page shows, or a part of one."""
    return re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def integration_settings(word: str, **changed: str | bool) -> str:
    """Return the settings that an integration's page shows first.

    `changed`: keys of the first handler in it that are otherwise where a test runs, or
    that the page does not have there.
    """
    page = ROOT / "docs" / "how-to" / "agent" / "integrations" / f"{word}.md"
    text = toml_blocks(page.read_text(encoding="utf-8"))[0]
    for key, value in changed.items():
        first = _HANDLER.split(text)[1]
        others = re.sub(rf"(?m)^{key} = .*\n", "", first).removeprefix("[[handler]]\n")
        line = f"{key} = {json.dumps(value)}"
        text = text.replace(first, f"[[handler]]\n{line}\n{others}", 1)
    return text


def recipe(heading: str, directory: Path) -> Policy:
    """Return what the recipe below a heading of either page makes."""
    pages = (RULES_PAGE, DECISIONS_PAGE)
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    section = text.partition(f"# {heading}\n")[2]
    file = directory / "agent.toml"
    file.write_text(settings_text(toml_blocks(section)[0]))
    return load_settings(file=str(file), environ={}, flags={}).policy
