"""Images say what the program takes, and what their pages say of them."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent import front
from forewarn.cli import parser

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SIMULATOR = DEPLOY / "simulator" / "Dockerfile"
IMAGES = sorted([*(DEPLOY / "docker").glob("*/Dockerfile"), SIMULATOR])
STEPS = frozenset(
    {"ARG", "FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER", "VOLUME", "EXPOSE"}
    | {"HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
)
each_image = pytest.mark.parametrize(
    "image", IMAGES, ids=lambda image: image.parent.name
)


def steps(image: Path) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile with what they say."""
    text = re.sub(r"^#.*\n", "", image.read_text("utf-8"), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest


# Images


@each_image
def test_image_uses_only_basic_steps_and_avoids_root(image: Path) -> None:
    image_steps = list(steps(image))
    assert {word for word, _ in image_steps} <= STEPS
    users = [rest for word, rest in image_steps if word == "USER"]
    # The simulator gives its network an address, which root alone may do.
    assert users == ([] if image == SIMULATOR else ["10001:10001"])
    # The base image has a Python release that the package declares.
    supported = (ROOT / "pyproject.toml").read_text("utf-8")
    bases = [
        rest for word, rest in image_steps if word == "ARG" and rest.startswith("BASE=")
    ]
    assert len(bases) == 1
    version = re.fullmatch(r"BASE=python:(3\.\d+)-slim", bases[0])
    assert version is not None, bases
    assert f"Python :: {version[1]}" in supported
    for word, rest in image_steps:
        assert word != "FROM" or rest in {"${BASE}", "${BASE} AS build"}


@each_image
@pytest.mark.parametrize(
    ("base", "is_refused"),
    [
        ("python:3.13-slim", True),
        ("python:3.13-slim@sha256:0123", True),
        (f"python:3.13-slim@sha256:{'0a' * 32}", False),
        (f"mirror.example/python@sha256:{'0a' * 32}", False),
    ],
)
def test_release_on_a_base_without_a_digest_is_refused(
    image: Path, base: str, is_refused: bool
) -> None:
    image_steps = list(steps(image))
    check = next(rest for word, rest in image_steps if word == "RUN")
    assert [rest for word, rest in image_steps if word == "ARG"][1:] == [
        "BASE",
        "RELEASE=",
    ]
    for release in ("", "1"):
        done = subprocess.run(
            ["/bin/sh", "-c", check],
            env={"BASE": base, "RELEASE": release, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == (1 if release and is_refused else 0)
        assert ("has no digest" in done.stderr) is bool(done.returncode)


@each_image
def test_image_copies_only_existing_files_that_are_not_ignored(image: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_in = [line[1:] for line in ignored if line.startswith("!")]
    copied = [
        source
        for word, rest in steps(image)
        if word == "COPY" and not rest.startswith("--from")
        for source in shlex.split(rest)[:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(Path(source).match(pattern) for pattern in let_in), source


@each_image
def test_image_entry_point_is_a_valid_command(image: Path) -> None:
    image_steps = dict(steps(image))
    program, *arguments = json.loads(image_steps["ENTRYPOINT"]) + json.loads(
        image_steps.get("CMD", "[]")
    )
    assert program == ("forewarn" if image == SIMULATOR else image.parent.name)
    if program == "forewarn":
        parser.build(arguments).parse_args(arguments)
    else:
        front._parser().parse_args(arguments)


def test_simulator_image_is_built_like_the_service_image() -> None:
    """Each file is to be used alone, so that the stage stands twice."""
    service = list(steps(DEPLOY / "docker" / "forewarn" / "Dockerfile"))
    simulator = list(steps(SIMULATOR))
    second = [word for word, _ in service].index("FROM", 1)
    assert simulator[:second] == service[:second]


@each_image
def test_hadolint_reports_nothing(image: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), image],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
