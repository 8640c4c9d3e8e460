"""Check the files for code hosts: workflows, templates, and the hooks before a commit.

The workflows cannot run here, so what can be checked is: each make target that they run
exists, and each action is pinned to a commit.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import notes
from tests.support.pages import ROOT

FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
TEMPLATES = sorted((FORGE / "ISSUE_TEMPLATE").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"

PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
PYTHONS = ["3.11", "3.12", "3.13"]
"""The versions that the package names in its classifiers."""


def read(path: Path) -> dict[str, Any]:
    # YAML 1.1 takes the key `on` for a truth value; a forge does not.
    text = re.sub(r"^on:", '"on":', path.read_text("utf-8"), flags=re.MULTILINE)
    return yaml.safe_load(text)


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job["steps"]


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text("utf-8")
    return set(re.findall(r"^([a-z]+):.*## ", text, re.MULTILINE))


def targets_in(command: str) -> list[str]:
    return re.findall(r"\bmake ([a-z]+)", command)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_runs_only_make_targets_that_exist(path: Path) -> None:
    commands = [step["run"] for step in steps(path) if "run" in step]
    named = [target for command in commands for target in targets_in(command)]
    assert named
    assert set(named) <= make_targets()


def test_real_programs_are_tested_in_a_job_by_themselves() -> None:
    jobs = read(FORGE / "workflows" / "checks.yml")["jobs"]
    ran = {
        name: [
            target
            for step in job["steps"]
            for target in targets_in(step.get("run", ""))
        ]
        for name, job in jobs.items()
    }
    assert [name for name, targets in ran.items() if "real" in targets] == ["real"]
    assert ran["real"] == ["real"]
    # Namespaces, guests and libvirt need root.
    assert "--privileged" in jobs["real"]["container"]["options"]


def test_tests_that_take_long_run_every_night_on_the_newest_python() -> None:
    nightly = read(FORGE / "workflows" / "nightly.yml")
    assert nightly["on"]["schedule"]
    commands = [step.get("run", "") for step in nightly["jobs"]["far"]["steps"]]
    assert commands[-1] == f"make far PYTHON=python{PYTHONS[-1]}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_job_uses_the_python_that_it_sets_up(path: Path) -> None:
    """Without PYTHON, make takes the oldest version of the machine that is new enough."""
    for name, job in read(path)["jobs"].items():
        versions = [
            str(step["with"]["python-version"])
            for step in job["steps"]
            if "python-version" in step.get("with", {})
        ]
        commands = [step["run"] for step in job["steps"] if "run" in step]
        for version in versions:
            if PYTHONS[0] not in version.split():
                named = [command for command in commands if targets_in(command)]
                wanted = f"PYTHON=python{version}"
                assert all(wanted in command for command in named), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_pins_each_action_to_a_commit_and_names_its_version(
    path: Path,
) -> None:
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert used
    assert all(PINNED.fullmatch(action) for action in used), used
    for line in path.read_text("utf-8").splitlines():
        assert "uses:" not in line or re.search(r"  # v\d", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_gets_only_the_rights_that_it_names(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["runs-on"] != "ubuntu-latest"


def test_checks_run_on_every_python_of_the_package_and_the_agents_oldest() -> None:
    jobs = read(FORGE / "workflows" / "checks.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == PYTHONS
    about = (ROOT / "pyproject.toml").read_text("utf-8")
    assert re.findall(r'"Programming Language :: Python :: (3\.\d+)"', about) == PYTHONS
    [setup] = [step for step in jobs["agent"]["steps"] if "with" in step]
    assert setup["with"]["python-version"].split() == ["3.9", "3.11"]
    assert jobs["guests"]["steps"][-1]["run"] == "make guests"


def test_release_publishes_with_the_identity_of_its_workflow() -> None:
    release = read(FORGE / "workflows" / "release.yml")
    publish = release["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert not any("password" in step.get("with", {}) for step in publish["steps"])
    built = [step.get("run", "") for step in release["jobs"]["build"]["steps"]]
    assert {"make test", "make package", "make chart", "make docs"} <= {*built}


def test_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    first = notes.section(text, "0.1.0")
    assert first.startswith("The first release")
    assert "\n## " not in first
    assert text.endswith(first)
    assert len(notes.section(text, "Unreleased")) < len(text) - len(first)
    with pytest.raises(LookupError, match=r"no section 9\.9\.9"):
        notes.section(text, "9.9.9")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_template_is_valid(path: Path) -> None:
    template = read(path)
    if path.stem != "config":
        assert template["name"]
        assert template["description"]
        ids = [part["id"] for part in template["body"] if "id" in part]
        assert len(ids) == len(set(ids)) > 0


def test_hooks_run_programs_of_the_project() -> None:
    hooks = [hook for repo in read(HOOKS)["repos"] for hook in repo["hooks"]]
    assert hooks
    for hook in hooks:
        command = hook["entry"]
        assert command.startswith((".venv/bin/", "make ")), command
        assert set(targets_in(command)) <= make_targets()


def test_forge_files_exist() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE"):
        assert (ROOT / name).is_file(), name
    assert (FORGE / "pull_request_template.md").is_file()
