"""Every package is built, looked into, installed where nothing else is, and run.

The Debian packages are installed and purged by dpkg itself, in a throw-away root.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from deploy.debian import build
from forewarn import __version__
from tests.support import throwaway

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "forewarn"

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]

JUNK = re.compile(
    r"__pycache__|\.py[co]$|\.(?:hypothesis|venv|build|git)/|\.sqlite3|~$"
)
UNREACHED = re.compile(r"NewConnectionError|NameResolutionError")
"""What pip says where there is no network."""
PATIENCE_SECONDS = 240.0
"""For one build or installation on a busy machine; each takes a tenth of it."""


def run(*words: str | Path, cwd: Path = ROOT, **more: str) -> str:
    """Return what a command says; fail with it where it fails."""
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# Wheel and sdist


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel",
        "-d", folder)  # fmt: skip
    return folder


def wheel_of(dist: Path) -> Path:
    [wheel] = dist.glob("*.whl")
    return wheel


def modules() -> set[str]:
    """Return every file of the package, as it lies below the source."""
    return {
        file.relative_to(SOURCE.parent).as_posix()
        for file in SOURCE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_the_wheel_has_the_package_and_nothing_else(dist: Path) -> None:
    wheel = wheel_of(dist)
    assert wheel.name == f"forewarn-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {each for each in names if each.startswith("forewarn/")} == modules()
    others = {each for each in names if not each.startswith("forewarn/")}
    about, data = f"forewarn-{__version__}.dist-info", f"forewarn-{__version__}.data"
    assert others == {
        *(f"{about}/{each}" for each in ("METADATA", "RECORD", "WHEEL")),
        *(f"{about}/{each}" for each in ("entry_points.txt", "licenses/LICENSE")),
        f"{data}/data/share/man/man1/forewarn.1",
        f"{data}/data/share/man/man1/forewarn-agent.1",
        f"{data}/data/share/man/man5/forewarn.toml.5",
        f"{data}/data/share/man/man5/forewarn-agent.toml.5",
    }
    # What is no module is there too: SQL, scenarios, the mark of its types.
    suffixes = {Path(each).suffix for each in modules()}
    assert {".sql", ".toml", ".typed"} - suffixes - {".typed"} == set()
    assert "forewarn/py.typed" in names


def test_the_wheel_says_what_an_index_asks(dist: Path) -> None:
    archive = zipfile.ZipFile(wheel_of(dist))
    raw = archive.read(f"forewarn-{__version__}.dist-info/METADATA")
    about = Metadata.from_email(raw, validate=True)
    assert (about.name, str(about.version)) == ("forewarn", __version__)
    assert str(about.requires_python) == ">=3.11"
    assert about.license_expression == "Apache-2.0"
    assert about.license_files == ["LICENSE"]
    assert set(about.provides_extra or []) == {"server", "test"}
    # Without an extra nothing is required.
    assert all("extra ==" in str(each) for each in about.requires_dist or [])
    assert about.summary
    assert about.description == (ROOT / "README.md").read_text("utf-8")
    assert about.description_content_type == "text/markdown"
    classifiers = about.classifiers or []
    assert "Typing :: Typed" in classifiers
    assert "Programming Language :: Python :: 3.11" in classifiers
    for url in (about.project_urls or {}).values():
        assert url.startswith("https://learn.microsoft.com/"), url


def test_the_sdist_has_what_is_needed_and_no_junk(dist: Path, tmp_path: Path) -> None:
    [sdist] = dist.glob("*.tar.gz")
    top = f"forewarn-{__version__}"
    assert sdist.name == f"{top}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = [each.removeprefix(f"{top}/") for each in archive.getnames()]
        archive.extractall(tmp_path, filter="data")
    assert not [each for each in names if JUNK.search(each)]
    assert {f"src/{each}" for each in modules()} <= set(names)
    wanted = {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "PKG-INFO"}
    wanted |= {"pyproject.toml", "requirements/run.txt", "deploy/man/forewarn.1"}
    assert wanted <= set(names)
    # It builds the same wheel, byte for byte.
    again = tmp_path / "again"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", again,
        cwd=tmp_path / top)  # fmt: skip
    assert wheel_of(again).read_bytes() == wheel_of(dist).read_bytes()


def test_the_wheel_is_all_that_an_agent_needs(dist: Path, tmp_path: Path) -> None:
    """In an environment with nothing else, as `pip install forewarn` makes it."""
    home = tmp_path / "env"
    run(sys.executable, "-m", "venv", home)
    run(home / "bin" / "pip", "install", "-qq", "--no-index",
        "--disable-pip-version-check", wheel_of(dist))  # fmt: skip
    program = home / "bin" / "forewarn"
    assert run(program, "--version", cwd=tmp_path) == f"forewarn {__version__}\n"
    said = run(
        *(program, "agent", "try", ROOT / "examples" / "agent" / "events.json"),
        *("--vm", "web_0", "--at", "2026-11-21T22:00:00Z"),
        cwd=tmp_path,
    )
    assert "Reboot Scheduled" in said
    for page in ("man1/forewarn.1", "man5/forewarn-agent.toml.5"):
        assert (home / "share" / "man" / page).exists()
    # What the service needs is said, not shown as a traceback.
    done = subprocess.run(
        [program, "serve"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "forewarn[server]" in done.stderr


# Debian


def deb(name: str, folder: Path) -> Path:
    """Return a Debian package, built into a folder."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not here: Debian packages are built on Debian")
    done = subprocess.run(
        [sys.executable, "-m", "deploy.debian.build", folder, "--only", name],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "PIP_RETRIES": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    if UNREACHED.search(done.stdout):
        pytest.skip("no package index can be reached for what the service runs on")
    assert done.returncode == 0, done.stdout
    return Path(done.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def agent_deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deb("forewarn-agent", tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def service_deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deb("forewarn", tmp_path_factory.mktemp("service"))


def listed(package: Path) -> dict[str, tuple[str, str]]:
    """Return the mode and the owner of each place in a package."""
    found: dict[str, tuple[str, str]] = {}
    for line in run("dpkg-deb", "--contents", package).splitlines():
        mode, owner, _, _, _, place = line.split(maxsplit=5)
        found[place.partition(" -> ")[0].removeprefix(".")] = (mode, owner)
    return found


def check_places(package: Path, wanted: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Fail unless a package is Debian's way; return its places."""
    found = listed(package)
    assert set(wanted) <= set(found)
    assert not [each for each in found if JUNK.search(each) or "/tests/" in each]
    roots = ("/usr/", "/etc/forewarn/", "/lib/systemd/system/")
    parents = {"/", "/usr/", "/etc/", "/lib/", "/lib/systemd/"}
    assert not [e for e in found if not e.startswith(roots) and e not in parents]
    assert {owner for _, owner in found.values()} == {"root/root"}
    modes = {mode for mode, _ in found.values()}
    assert modes <= {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx"}
    return found


def test_the_agents_package_is_the_agent_alone(agent_deb: Path) -> None:
    version = build.debian_version(__version__)
    assert agent_deb.name == f"forewarn-agent_{version}_all.deb"
    found = check_places(
        agent_deb,
        (
            *("/usr/bin/forewarn-agent", "/etc/forewarn/agent.toml"),
            *("/lib/systemd/system/forewarn-agent.service",),
            *("/usr/share/man/man1/forewarn-agent.1.gz",),
            *("/usr/share/man/man5/forewarn-agent.toml.5.gz",),
            *build.completion_places("forewarn-agent").values(),
            *("/usr/share/doc/forewarn-agent/copyright",),
            *("/usr/share/doc/forewarn-agent/docs/agent.md",),
        ),
    )
    code = {each for each in found if each.startswith(build.AGENT_FOLDER)}
    assert f"{build.AGENT_FOLDER}/forewarn/agent/__main__.py" in code
    assert not [each for each in code if "/service/" in each or "/cli/" in each]
    fields = run("dpkg-deb", "--field", agent_deb)
    assert "Architecture: all\n" in fields
    assert "Depends: python3 (>= 3.11)," in fields
    assert run("dpkg-deb", "--info", agent_deb, "conffiles") == (
        "/etc/forewarn/agent.toml\n"
    )


def test_the_services_package_brings_what_it_runs_on(service_deb: Path) -> None:
    architecture = run("dpkg", "--print-architecture").strip()
    version = build.debian_version(__version__)
    assert service_deb.name == f"forewarn_{version}_{architecture}.deb"
    major, minor = build._python()
    home = f"/usr/lib/forewarn/lib/python{major}.{minor}/site-packages"
    found = check_places(
        service_deb,
        (
            *("/usr/bin/forewarn", "/usr/lib/forewarn/bin/python3"),
            *("/etc/forewarn/forewarn.toml", "/lib/systemd/system/forewarn.service"),
            *(f"{home}/{each}" for each in modules()),
            *(f"{home}/{each}/" for each in ("fastapi", "httptools", "uvloop")),
            "/usr/share/man/man1/forewarn.1.gz",
            *build.completion_places("forewarn").values(),
        ),
    )
    # What builds and tests it is not in it.
    assert not [each for each in found if "/hatchling/" in each or "/pytest/" in each]
    # Of each distribution that is bundled there is its licence, or what names it.
    notes = {e for e in found if e.endswith(".dist-info/METADATA")}
    pins = re.findall(r"^[a-z0-9][\w.-]*==", build.PINS.read_text(), re.MULTILINE)
    assert 10 < len(notes) <= len(pins)
    fields = run("dpkg-deb", "--field", service_deb)
    assert f"python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1})" in fields


@pytest.mark.parametrize("name", ["forewarn-agent", "forewarn"])
def test_two_builds_are_the_same(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fixture = {"forewarn-agent": "agent_deb", "forewarn": "service_deb"}[name]
    first: Path = request.getfixturevalue(fixture)
    # Whoever builds has another umask, and other folders.
    umask = os.umask(0o077)
    try:
        again = deb(name, tmp_path)
    finally:
        os.umask(umask)
    assert again.read_bytes() == first.read_bytes()


LINTIAN_ALLOWED = (
    # It is no package of Debian's, and has nobody's address.
    "bogus-mail-host",
    # What is bundled is what its makers published, to the byte.
    "unstripped-binary-or-object",
    "unusual-interpreter python [usr/lib/forewarn/lib/",
    # The package's own environment, as venv makes them.
    "wrong-path-for-interpreter /usr/lib/forewarn/bin/python3",
)
"""What lintian may say, and why; anything else it says fails the test."""


@pytest.mark.parametrize("fixture", ["agent_deb", "service_deb"])
def test_lintian_has_nothing_to_say(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed (Debian: apt install lintian)")
    package: Path = request.getfixturevalue(fixture)
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "none", package],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    told = [
        line
        for line in done.stdout.splitlines()
        if not any(f": {allowed}" in line for allowed in LINTIAN_ALLOWED)
    ]
    assert not told, "\n".join(told)


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
forewarn-agent --endpoint http://127.0.0.1:9 --listen 127.0.0.1:9464 --name a 2>/tmp/log &
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

SERVICE_STORY = """\
dpkg -i /packages/forewarn_*.deb
forewarn --version
id -un forewarn
test "$(stat -c '%U %a' /var/lib/forewarn)" = 'forewarn 700'
test -L /etc/systemd/system/multi-user.target.wants/forewarn.service
cd /var/lib/forewarn
runuser -u forewarn -- forewarn config check --config /etc/forewarn/forewarn.toml
runuser -u forewarn -- forewarn serve --config /etc/forewarn/forewarn.toml 2>/tmp/log &
for i in $(seq 200); do forewarn operations >/dev/null 2>&1 && break; sleep 0.1; done
cat >/tmp/fleet.toml <<'END'
[[tenant]]
name = "shop"
[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
fault_domain = 0
listen = "127.0.0.1:8301"
END
forewarn fleet apply /tmp/fleet.toml
forewarn agent try /packages/events.json --vm web_0
url='http://127.0.0.1:8301/metadata/scheduledevents?api-version=2020-07-01'
ask() { python3 -c 'import sys, urllib.request as r
q = r.Request(sys.argv[1], headers={"Metadata": "true"})
print(r.urlopen(q, timeout=10).read().decode())' "$url"; }
for i in $(seq 50); do ask >/tmp/document 2>/dev/null && break; sleep 0.1; done
forewarn reboot web_0
ask | grep -c '"EventType":"Reboot"'
pkill -u forewarn -f 'forewarn serve'
wait
cat /tmp/log | tail -n 3
test -s /var/lib/forewarn/forewarn.db
dpkg --remove forewarn
test -s /var/lib/forewarn/forewarn.db
dpkg --purge forewarn
test ! -e /var/lib/forewarn
test ! -e /etc/forewarn
test -z "$(find /usr /etc/systemd /lib/systemd /var/lib/systemd -xdev -name '*forewarn*')"
echo THE END
"""


def test_the_agents_package_comes_and_goes(agent_deb: Path, tmp_path: Path) -> None:
    said = throwaway.install(
        AGENT_STORY, agent_deb, place=tmp_path / "place", seconds=PATIENCE_SECONDS
    )
    assert __version__ in said


def test_the_services_package_comes_and_goes(service_deb: Path, tmp_path: Path) -> None:
    said = throwaway.install(
        SERVICE_STORY,
        service_deb,
        ROOT / "examples" / "agent" / "events.json",
        place=tmp_path / "place",
        seconds=PATIENCE_SECONDS,
    )
    assert f"forewarn {__version__}" in said


SYSTEMD_STORY = """\
dpkg -i /packages/*.deb
active() {
    for i in $(seq 100); do
        test "$(systemctl is-active $1)" = active && return
        sleep 0.1
    done
    journalctl --no-pager -u $1
    return 1
}
pid() { systemctl show -p MainPID --value $1; }
mounts() { readlink /proc/$1/ns/mnt; }

# As Debian's packages do, both began to run; each says by itself that it is there.
active forewarn
active forewarn-agent
test "$(stat -c %U /var/lib/forewarn/forewarn.db)" = forewarn
test "$(stat -c %U /var/lib/forewarn-agent/agent.db)" = root
forewarn operations
systemctl show -p StatusText forewarn forewarn-agent

# What a handler mounts is mounted for all; the service has mounts of its own.
test "$(mounts $(pid forewarn-agent))" = "$(mounts 1)"
test "$(mounts $(pid forewarn))" != "$(mounts 1)"

# An upgrade starts it anew.
before=$(pid forewarn-agent)
dpkg -i /packages/forewarn-agent_*.deb
active forewarn-agent
test "$(pid forewarn-agent)" != "$before"

dpkg --purge forewarn-agent
test "$(systemctl is-active forewarn-agent)" = inactive
active forewarn
test -s /var/lib/forewarn/forewarn.db
forewarn operations
dpkg --purge forewarn
test "$(systemctl is-active forewarn)" = inactive
test ! -e /etc/forewarn
echo THE END
"""


def test_both_packages_run_under_systemd(
    agent_deb: Path, service_deb: Path, tmp_path: Path
) -> None:
    """On one machine, whose systemd starts and stops them as it should."""
    said = throwaway.boot(
        SYSTEMD_STORY,
        agent_deb,
        service_deb,
        place=tmp_path / "place",
        seconds=PATIENCE_SECONDS,
    )
    assert "StatusText=serving 0 VMs" in said
