"""Packages: build, content, installation into an empty environment, and a run.

The agent's Debian package is installed and purged by dpkg itself, in a temporary root.
The test of the service's package is in `tests/real/test_packages.py`.
"""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from deploy import bundle
from deploy.debian import build
from forewarn import __version__
from tests.support import throwaway
from tests.support.packages import (
    JUNK,
    PATIENCE_SECONDS,
    ROOT,
    check_places,
    deb,
    modules,
    run,
    same_again,
)
from tests.support.pythons import find_oldest, needing_oldest

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]

# Wheel and sdist


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with wheel and sdist."""
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel",
        "-d", directory)  # fmt: skip
    return directory


def wheel_of(dist: Path) -> Path:
    [wheel] = dist.glob("*.whl")
    return wheel


def test_wheel_contains_only_the_package(dist: Path) -> None:
    wheel = wheel_of(dist)
    assert wheel.name == f"forewarn-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if name.startswith("forewarn/")} == modules()
    others = {name for name in names if not name.startswith("forewarn/")}
    about, data = f"forewarn-{__version__}.dist-info", f"forewarn-{__version__}.data"
    assert others == {
        *(f"{about}/{name}" for name in ("METADATA", "RECORD", "WHEEL")),
        *(f"{about}/{name}" for name in ("entry_points.txt", "licenses/LICENSE")),
        f"{data}/data/share/man/man1/forewarn.1",
        f"{data}/data/share/man/man1/forewarn-agent.1",
        f"{data}/data/share/man/man5/forewarn.toml.5",
        f"{data}/data/share/man/man5/forewarn-agent.toml.5",
    }
    # Files other than modules are included too: SQL, scenarios, py.typed.
    suffixes = {Path(module).suffix for module in modules()}
    assert {".sql", ".toml", ".typed"} - suffixes - {".typed"} == set()
    assert "forewarn/py.typed" in names


def test_wheel_has_the_metadata_for_an_index(dist: Path) -> None:
    archive = zipfile.ZipFile(wheel_of(dist))
    raw = archive.read(f"forewarn-{__version__}.dist-info/METADATA")
    about = Metadata.from_email(raw, validate=True)
    assert (about.name, str(about.version)) == ("forewarn", __version__)
    assert str(about.requires_python) == ">=3.11"
    assert about.license_expression == "Apache-2.0"
    assert about.license_files == ["LICENSE"]
    assert set(about.provides_extra or []) == {"postgres", "server", "test"}
    # Without an extra there are no dependencies.
    assert all(
        "extra ==" in str(requirement) for requirement in about.requires_dist or []
    )
    assert about.summary
    assert about.description == (ROOT / "README.md").read_text("utf-8")
    assert about.description_content_type == "text/markdown"
    classifiers = about.classifiers or []
    assert "Typing :: Typed" in classifiers
    assert "Programming Language :: Python :: 3.11" in classifiers
    urls = about.project_urls or {}
    assert {"documentation", "source", "issues", "changelog"} <= {*map(str.lower, urls)}
    assert all(url.startswith("https://") for url in urls.values())


def test_sdist_has_all_needed_files_and_no_junk(dist: Path, tmp_path: Path) -> None:
    [sdist] = dist.glob("*.tar.gz")
    top = f"forewarn-{__version__}"
    assert sdist.name == f"{top}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = [name.removeprefix(f"{top}/") for name in archive.getnames()]
        archive.extractall(tmp_path, filter="data")
    assert not [name for name in names if JUNK.search(name)]
    assert {f"src/{module}" for module in modules()} <= set(names)
    wanted = {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "PKG-INFO"}
    wanted |= {"pyproject.toml", "requirements/run.txt", "deploy/man/forewarn.1"}
    assert wanted <= set(names)
    # It builds the same wheel, byte for byte.
    again = tmp_path / "again"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", again,
        cwd=tmp_path / top)  # fmt: skip
    assert wheel_of(again).read_bytes() == wheel_of(dist).read_bytes()


@pytest.mark.long
def test_wheel_alone_can_run_an_agent(dist: Path, tmp_path: Path) -> None:
    """In an environment with only `pip install forewarn`."""
    home = tmp_path / "env"
    run(sys.executable, "-m", "venv", "--without-pip", home)
    run(sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install",
        "-qq", "--no-index", "--disable-pip-version-check",
        wheel_of(dist))  # fmt: skip
    program = home / "bin" / "forewarn"
    assert run(program, "--version", cwd=tmp_path) == f"forewarn {__version__}\n"
    output = run(
        *(program, "agent", "try", ROOT / "examples" / "agent" / "events.json"),
        *("--vm", "web_0", "--at", "2026-11-21T22:00:00Z"),
        cwd=tmp_path,
    )
    assert "Reboot Scheduled" in output
    for page in ("man1/forewarn.1", "man5/forewarn-agent.toml.5"):
        assert (home / "share" / "man" / page).exists()
    # A missing dependency is reported without a traceback.
    done = subprocess.run(
        [program, "serve"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "forewarn[server]" in done.stderr


# Debian


@pytest.fixture(scope="module")
def agent_deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deb("forewarn-agent", tmp_path_factory.mktemp("agent"))


def test_agent_package_contains_only_the_agent(agent_deb: Path) -> None:
    version = build.debian_version(__version__)
    assert agent_deb.name == f"forewarn-agent_{version}_all.deb"
    paths = check_places(
        agent_deb,
        (
            *("/usr/bin/forewarn-agent", "/etc/forewarn/agent.toml"),
            *("/lib/systemd/system/forewarn-agent.service",),
            *("/usr/share/man/man1/forewarn-agent.1.gz",),
            *("/usr/share/man/man5/forewarn-agent.toml.5.gz",),
            *build.completion_places("forewarn-agent").values(),
            *("/usr/share/doc/forewarn-agent/copyright",),
            *("/usr/share/doc/forewarn-agent/docs/how-to/agent/install.md",),
            *("/usr/share/doc/forewarn-agent/examples/agent/events.json",),
        ),
    )
    code = {path for path in paths if path.startswith(build.AGENT_DIRECTORY)}
    assert f"{build.AGENT_DIRECTORY}/forewarn/agent/__main__.py" in code
    assert not [path for path in code if "/service/" in path or "/cli/" in path]
    # tomli, for Python before 3.11, is bundled as pinned and with its license.
    assert f"{build.AGENT_DIRECTORY}/tomli/_parser.py" in code
    copyright_text = run(
        "sh", "-c", f"dpkg-deb --fsys-tarfile {agent_deb} |"
        " tar -xO ./usr/share/doc/forewarn-agent/copyright",
    )  # fmt: skip
    [pin] = re.findall(r"(?m)^tomli==(\S+)", bundle.PINS.read_text("utf-8"))
    assert f"\nComment: tomli {pin}\n" in copyright_text
    assert "  MIT License\n" in copyright_text
    [named] = re.findall(r"(?m)^Files: (usr/lib/.*)$", copyright_text)
    for place in named.split():
        assert any(path.startswith(f"/{place[:-1]}") for path in code), place
    fields = run("dpkg-deb", "--field", agent_deb)
    assert "Architecture: all\n" in fields
    assert "Depends: python3 (>= 3.9)," in fields
    assert run("dpkg-deb", "--info", agent_deb, "conffiles") == (
        "/etc/forewarn/agent.toml\n"
    )


@needing_oldest()
def test_the_agents_package_runs_on_the_oldest_python(
    agent_deb: Path, tmp_path: Path
) -> None:
    run("dpkg-deb", "--extract", agent_deb, tmp_path)
    launcher = (tmp_path / "usr" / "bin" / "forewarn-agent").read_text("utf-8")
    assert launcher.startswith(f"#!{build.SYSTEM_PYTHON} -I\n")
    moved = launcher.replace(
        build.AGENT_DIRECTORY, f"{tmp_path}{build.AGENT_DIRECTORY}"
    )
    settings = tmp_path / "etc" / "forewarn" / "agent.toml"
    output = run(
        *(find_oldest(), "-I", "-c", moved),
        *("settings", "--json", "--config", settings),
    )
    rows = {row["key"]: row["value"] for row in json.loads(output)}
    assert rows["state"] == "/var/lib/forewarn-agent/agent.db"


def test_two_builds_are_the_same(agent_deb: Path, tmp_path: Path) -> None:
    assert same_again("forewarn-agent", agent_deb, tmp_path)


AGENT_STORY = """\
dpkg -i /packages/forewarn-agent_*.deb
forewarn-agent --version
test -e /usr/lib/forewarn-agent/forewarn/agent/__pycache__
test "$(stat -c '%U %a' /var/lib/forewarn-agent)" = 'root 700'
# No systemd runs here: nothing was started, and the unit is enabled for the next boot.
test -L /etc/systemd/system/multi-user.target.wants/forewarn-agent.service
if pgrep -f bin/forewarn-agent; then exit 1; fi
forewarn-agent settings --json | grep -c /var/lib/forewarn-agent/agent.db
printf '{"DocumentIncarnation":1,"Events":[]}' >/tmp/none.json
forewarn-agent try /tmp/none.json --vm a
forewarn-agent --endpoint http://127.0.0.1:9/$$ --listen 127.0.0.1:9464 --name a 2>/tmp/log &
agent=$!
for i in $(seq 100); do forewarn-agent status >/tmp/status 2>&1 && break; sleep 0.1; done
cat /tmp/status
kill $agent; wait $agent
test -s /var/lib/forewarn-agent/agent.db

# What the administrator has changed is kept by an upgrade.
echo 'observe = true' >/etc/forewarn/agent.toml
dpkg -i --force-confold /packages/forewarn-agent_*.deb
grep -x 'observe = true' /etc/forewarn/agent.toml

dpkg --remove forewarn-agent
test -e /etc/forewarn/agent.toml
test -e /var/lib/forewarn-agent/agent.db
test ! -e /usr/lib/forewarn-agent
dpkg --purge forewarn-agent
test ! -e /etc/forewarn
test ! -e /var/lib/forewarn-agent
test -z "$(find /usr /etc/systemd /lib/systemd /var/lib/systemd -xdev -name '*forewarn-agent*')"
echo THE END
"""


@pytest.mark.long
def test_agent_package_is_installed_and_removed(
    agent_deb: Path, tmp_path: Path
) -> None:
    message = throwaway.install(
        AGENT_STORY, agent_deb, place=tmp_path / "place", seconds=PATIENCE_SECONDS
    )
    assert __version__ in message
