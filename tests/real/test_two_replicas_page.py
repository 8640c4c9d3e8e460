"""The commands of the page "Run two replicas", as they are pasted."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forewarn.cluster.port import StandbyState
from forewarn.service.cluster.postgres import PostgresBackend
from forewarn.store.postgres.cluster import PostgresCluster
from tests.support.postgres_places import Server, url_of
from tests.support.processes import eventually
from tests.support.unpacked import ROOT, environment, find, needing

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.system]

PAGE = ROOT / "docs" / "how-to" / "operate" / "run-two-replicas.md"


def commands(section: str) -> list[str]:
    """Return the shell commands of a section, each on one line."""
    text = PAGE.read_text(encoding="utf-8")
    text_of_section = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", text_of_section, re.DOTALL | re.MULTILINE)
    return [
        line for command in blocks for line in command.replace("\\\n", "").splitlines()
    ]


@pytest.fixture
def server() -> Iterator[Server]:
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        new_server = Server(directory / "server")
        new_server.make()
        new_server.start()
        yield new_server
        new_server.stop()


@needing("postgres", "initdb", "createuser", "createdb", "psql")
def test_database_of_the_page_serves_replicas(server: Server) -> None:
    as_postgres = {"PGHOST": str(server.directory), "PGUSER": "postgres"}
    messages = commands("The database")
    assert len(messages) == 4
    url = url_of([server], "forewarn").replace("user=postgres", "user=forewarn")
    for line in messages:
        if "synchronous_standby_names" in line:
            # Afterwards, each commit waits for a standby.
            PostgresBackend(url).prepare().close()
        arguments = shlex.split(line)
        assert arguments[:3] == ["sudo", "-u", "postgres"]
        # The password is asked for at a terminal.
        arguments = [
            find(arguments[3]),
            *(argument for argument in arguments[4:] if argument != "--pwprompt"),
        ]
        done = subprocess.run(
            arguments,
            env=environment(Path(arguments[0]).name, **as_postgres),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    cluster = PostgresCluster(url)
    eventually(
        lambda: cluster.condition().standby, lambda it: it is StandbyState.MISSING
    )
    cluster.close()


@needing("helm")
def test_chart_takes_the_values_of_the_page() -> None:
    [line] = [
        command for command in commands("In Kubernetes") if command.startswith("helm")
    ]
    command = shlex.split(line)
    assert command[:3] == ["helm", "upgrade", "--install"]
    done = subprocess.run(
        [find("helm"), "template", *command[3:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "replicas: 2" in done.stdout
    assert "name: forewarn-db" in done.stdout
