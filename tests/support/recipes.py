"""The settings that the agent's pages show, as whole files."""

import re
from pathlib import Path

from forewarn.agent.core.policy import Policy
from forewarn.agent.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
AGENT_PAGE = ROOT / "docs" / "agent.md"
HANDLERS_PAGE = ROOT / "docs" / "agent-handlers.md"

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


def recipe(heading: str, folder: Path) -> Policy:
    """Return what the recipe below a heading of the agent's page makes."""
    text = AGENT_PAGE.read_text(encoding="utf-8")
    section = text.partition(f"### {heading}\n")[2]
    found = re.search(r"^```toml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    file = folder / "agent.toml"
    file.write_text(settings_text(found[1]))
    return load_settings(file=str(file), environ={}, flags={}).policy
