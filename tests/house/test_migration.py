"""The pages about other programs are true: their settings load, and do what is said."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.exec import variables
from forewarn.agent.handlers.port import Job
from forewarn.agent.observability.metric_definitions import METERS
from forewarn.agent.settings import Settings, load_settings
from forewarn.agent.sinks.port import PLACES
from forewarn.cli import parser
from forewarn.instants import MINUTE
from forewarn.sim.scenario import builtin
from forewarn.sim.scenario.file import read_scenario
from tests.house.test_docs import FENCE, ROOT, anchors, name_of, text_of
from tests.support.other_clients import FLAGS, THERE, ours, read_example
from tests.unit.agent.core.support import START, notice

PAGES = sorted((ROOT / "docs" / "how-to" / "migrate").glob("[!i]*.md"))
INDEX = ROOT / "docs" / "how-to" / "migrate" / "index.md"
COMPARISON = ROOT / "docs" / "explanation" / "comparison.md"

EVENTS_HEAD = "| event | other program | agent | why |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The text under one heading of the second level."""

    page: str
    anchor: str
    text: str

    @property
    def settings(self) -> list[str]:
        """Return the settings that it shows."""
        matches = FENCE.finditer(self.text)
        return [match["text"] for match in matches if match["language"] == "toml"]

    @property
    def rows(self) -> list[list[str]]:
        """Return its table of events."""
        lines = iter(self.text.splitlines())
        if EVENTS_HEAD not in lines:
            return []
        next(lines)
        return list(table(lines))


def table(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def sections() -> Iterator[Section]:
    for path in PAGES:
        for part in re.split(r"(?m)^(?=## )", text_of(path))[1:]:
            title = part.partition("\n")[0].removeprefix("## ").lower()
            yield Section(
                page=path.name,
                anchor=re.sub(r"[^\w\- ]", "", title).replace(" ", "-"),
                text=part,
            )


def load(text: str, directory: Path) -> Settings:
    file = directory / "agent.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file=str(file), environ={}, flags={})


def shown() -> Iterator[tuple[str, str]]:
    """Yield whose decisions settings are to match, and the settings."""
    for section in sections():
        for text in section.settings:
            whose = f"{section.page}#{section.anchor}"
            yield (whose if whose in THERE else section.page), text


def told(whose: str) -> list[list[str]]:
    """Return the table of events of a client."""
    page, _, anchor = whose.partition("#")
    return [
        row
        for section in sections()
        if section.page == page and anchor in {"", section.anchor}
        for row in section.rows
    ]


def test_each_page_is_in_the_index() -> None:
    for page in PAGES:
        assert f"({page.name})" in text_of(INDEX)


@pytest.mark.parametrize("whose", THERE)
def test_stated_behavior_of_the_other_client_matches_its_source(whose: str) -> None:
    rows = told(whose)
    assert rows, whose
    for event, there, _, _ in rows:
        assert there == THERE[whose](read_example(event)), event


@pytest.mark.parametrize(
    ("whose", "text"), [*shown()], ids=lambda text: text.partition("\n")[0]
)
def test_agent_behaves_as_the_migration_page_says(
    whose: str, text: str, tmp_path: Path
) -> None:
    settings = load(text, tmp_path)
    assert settings.warnings == ()
    for event, _, here, _ in told(whose):
        assert ours(settings.policy, read_example(event)) == here, event


@pytest.mark.parametrize("whose", THERE)
def test_each_deliberate_difference_has_a_reason(whose: str) -> None:
    for event, there, here, why in told(whose):
        assert there == here or why or "Started" in event, event


@pytest.mark.parametrize("page", FLAGS)
def test_every_flag_is_mentioned(page: str) -> None:
    text = text_of(ROOT / "docs" / "how-to" / "migrate" / page)
    code = " ".join(re.findall(r"`([^`\n]+)`", text))
    assert not set(FLAGS[page].split()) - set(re.split(r"[\s,=:]+", code))


def test_manager_script_gets_its_variables(
    tmp_path: Path,
) -> None:
    (settings,) = [
        load(text, tmp_path)
        for whose, text in shown()
        if whose.startswith("azure-scheduledevents-manager") and "EVENT_ID" in text
    ]
    (handler,) = settings.handlers
    script = tmp_path / "host-drain.sh"
    script.write_text('#!/bin/sh\nenv | grep ^EVENT_ | sort\necho "said $1"\n')
    script.chmod(0o755)
    arguments = [
        word.replace("/host-drain.sh", str(script)) for word in handler.prepare
    ]
    job = Job(
        run_id="E1.1.prepare.1.drain",
        handler="drain",
        phase=Phase.PREPARE,
        attempt=1,
        notice=notice(resources=("vm1", "vm2"), not_before=START + 15 * MINUTE),
        vm="vm1",
        stop_at=START + MINUTE,
        now=START,
    )
    environment = {"PATH": os.defpath, **variables(job)}
    ended = subprocess.run(
        arguments,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert ended.stdout.splitlines() == [
        "EVENT_ID=E1",
        "EVENT_NOTBEFORE=Mon, 02 Mar 2026 12:15:00 GMT",
        "EVENT_RESOURCES=vm1 vm2",
        "EVENT_RESOURCETYPE=VirtualMachine",
        "EVENT_SOURCE=Platform",
        "EVENT_STATUS=Scheduled",
        "EVENT_TYPE=Reboot",
        "said Reboot",
    ]


def test_named_placeholders_and_metrics_exist() -> None:
    known = {meter.name for meter in METERS}
    for path in [*PAGES, INDEX, COMPARISON]:
        text = text_of(path)
        assert not set(re.findall(r"\bforewarn_agent_\w+", text)) - known
        markers = set(re.findall(r"`\{(\w+)\}`", text))
        assert not markers - PLACES.keys() - {"name"}


def test_named_commands_are_valid(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong: list[str] = []
    for path in [*PAGES, INDEX, COMPARISON]:
        for command in re.findall(r"`(?:sudo )?(forewarn [^`]+)`", text_of(path)):
            arguments = shlex.split(command)[1:]
            try:
                parser.build(arguments).parse_args(arguments)
            except SystemExit as ended:
                message = capsys.readouterr().err
                # A command may be named without all of its words.
                if ended.code and "required" not in message:
                    wrong.append(f"{name_of(path)}: {command}: {message}")
    assert not wrong, "\n".join(wrong)


def test_named_scenarios_exist() -> None:
    for name in re.findall(
        r'forewarn simulate "([^"]+)"', text_of(PAGES[0].parent / "mocks.md")
    ):
        builtin.find(name)


def test_step_added_to_a_scenario_is_valid() -> None:
    (added,) = re.findall(
        r"^printf '(.*)' >>mine\.toml$",
        text_of(PAGES[0].parent / "mocks.md"),
        re.MULTILINE,
    )
    text = builtin.text("live-migration") + added.replace("\\n", "\n")
    scenario = read_scenario(text, file="mine.toml")
    assert len(scenario.steps) == len(builtin.find("live-migration").steps) + 1


# The comparison


def cells() -> Iterator[tuple[str, str, str]]:
    """Yield table and row, the column, and the cell of every comparison."""
    for part in re.split(r"(?m)^(?=## )", text_of(COMPARISON))[1:]:
        lines = iter(part.splitlines())
        for line in lines:
            if not line.startswith("| | forewarn |"):
                continue
            (columns,) = table(iter([line]))
            next(lines)
            for row in table(lines):
                assert len(row) == len(columns), row
                for column, cell in zip(columns[1:], row[1:], strict=True):
                    yield row[0], column, cell


def test_every_claim_about_forewarn_names_its_document() -> None:
    claims = [(row, cell) for row, column, cell in cells() if column == "forewarn"]
    assert len(claims) > 30
    for row, cell in claims:
        links = re.findall(r"\]\(([^)]+)\)", cell)
        assert links, f"{row}: {cell}"
        for link in links:
            where, _, anchor = link.partition("#")
            target = (COMPARISON.parent / where).resolve()
            assert target.exists(), link
            if anchor:
                assert anchor in anchors(target), link


def test_every_claim_about_others_names_its_source() -> None:
    text = text_of(COMPARISON)
    sources = set(re.findall(r"(?m)^\[(\w+)\]: https://\S+$", text))
    used: set[str] = set()
    for row, column, cell in cells():
        if column == "forewarn":
            continue
        marks = re.findall(r"\[(\w+)\](?!\()", cell)
        assert marks or cell in {"not known", "does not apply"}, (
            f"{row}, {column}: {cell}"
        )
        used.update(marks)
    assert used == sources
