"""The exact messages about invalid files, for each format.

`messages` has a file for each format. A case is a text, `----` and the problems. After a
change, `pytest --rewrite` writes the new messages; review the difference. The messages of
fleet files and scenarios are next to their tests.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.addresses.file import read_plan
from forewarn.agent.settings import load_settings as load_agent_settings
from forewarn.campaigns.file import read_campaign
from forewarn.protocol.errors import ForewarnError
from forewarn.service.settings import load_settings
from forewarn.sim.faults.file import read_faults

CASES = Path(__file__).with_name("messages")
BETWEEN = "========\n"


def service(text: str, directory: Path) -> object:
    file = directory / "forewarn.toml"
    file.write_text(text)
    return load_settings(file=file, environ={}, flags={})


def agent(text: str, directory: Path) -> object:
    file = directory / "agent.toml"
    file.write_text(text)
    return load_agent_settings(file=str(file), environ={}, flags={})


READERS: dict[str, Callable[[str, Path], object]] = {
    "addresses": lambda text, _: read_plan(text, name="addresses.toml"),
    "agent": agent,
    "campaign": lambda text, _: read_campaign(text, name="campaign.toml"),
    "faults": lambda text, _: read_faults(text, name="faults.toml"),
    "service": service,
}


def told(name: str, text: str, directory: Path) -> str:
    try:
        READERS[name](text, directory)
    except ForewarnError as error:
        return error.message.replace(f"{directory}/", "") + "\n"
    return "nothing is wrong\n"


@pytest.mark.parametrize("name", READERS)
def test_invalid_file_gets_the_expected_message(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file = CASES / f"{name}.txt"
    before = file.read_text(encoding="utf-8")
    texts = [case.partition("----\n")[0] for case in before.split(BETWEEN)]
    now = BETWEEN.join(f"{text}----\n{told(name, text, tmp_path)}" for text in texts)
    if request.config.getoption("--rewrite"):
        file.write_text(now, encoding="utf-8")
    assert now == file.read_text(encoding="utf-8")
