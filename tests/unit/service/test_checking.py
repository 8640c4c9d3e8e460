"""Problems that `config check` finds."""

import shutil
from pathlib import Path

import pytest

from forewarn import cli
from forewarn.service import checking, secret_files
from forewarn.service.settings import Settings, SettingsError, load_settings

KEY = "whsec_" + "QUJD" * 8 + "\n"

EVERYTHING = """\
[metadata]
listen = "127.0.0.1:0"
signed_secret_file = "proxy"
[admin]
token_file = "tokens"
[store]
url = "sqlite:///data/forewarn.db"
[driver]
kind = "command"
[driver.command]
freeze = ["/bin/true", "{vm}"]
reboot = ["true", "{vm}"]
observe = ["/bin/true", "{vm}"]
records = "data/records"
[[webhook]]
name = "a"
url = "https://h.example"
secret_file = "a.key"
[[webhook]]
name = "b"
url = "https://h.example"
secret_file = "b.key"
ca_file = "authorities.pem"
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with all files that the settings name."""
    monkeypatch.chdir(tmp_path)
    Path("forewarn.toml").write_text(EVERYTHING)
    Path("data").mkdir()
    for name, text in {
        "proxy": "s3cret\n",
        "tokens": "alice:s3cret-of-24-characters-x7\n",
        "a.key": KEY,
        "b.key": KEY,
    }.items():
        Path(name).write_text(text)
        Path(name).chmod(0o640)
    path = Path(__file__).with_name("authority.pem")
    shutil.copyfile(path, "authorities.pem")
    return tmp_path


def settings() -> Settings:
    return load_settings(file=Path("forewarn.toml"), environ={}, flags={})


def faults() -> list[str]:
    with pytest.raises(SettingsError) as caught:
        checking.check(settings())
    return [str(problem) for problem in caught.value.problems]


def test_check_of_complete_files_passes_and_creates_nothing(directory: Path) -> None:
    before = sorted(directory.rglob("*"))
    checking.check(settings())
    assert _warnings() == []
    assert sorted(directory.rglob("*")) == before


def test_world_readable_store_causes_a_warning(directory: Path) -> None:
    store = directory / "data" / "forewarn.db"
    store.touch(mode=0o640)
    assert _warnings() == []
    store.chmod(0o644)
    [warning] = _warnings()
    assert "forewarn.db (store.url) can be read by all users" in warning


def without(name: str) -> None:
    path = Path(name)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("proxy", [":3: metadata.signed_secret_file: proxy cannot be read"]),
        ("tokens", [":5: admin.token_file: the token file tokens cannot be read"]),
        (
            "data",
            [
                ":7: store.url: there is no directory",
                ":14: driver.command.records: the directory",
            ],
        ),
        ("a.key", [":18: webhook.secret_file: a.key cannot be read"]),
        ("b.key", [":22: webhook.secret_file: b.key cannot be read"]),
        ("authorities.pem", [":23: webhook.ca_file: authorities.pem cannot be used"]),
    ],
)
def test_each_missing_file_is_reported_with_its_line(
    name: str, expected: list[str]
) -> None:
    without(name)
    lines = faults()
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(f"forewarn.toml{start}"), line


def test_authorities_of_replicas_are_reported() -> None:
    flags = {"store.url": "postgresql:///forewarn", "cluster.ca_file": "missing.pem"}
    settings = load_settings(file=None, environ={}, flags=flags)
    with pytest.raises(
        SettingsError, match=r"missing\.pem cannot be used: No such file"
    ):
        checking.check(settings)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("proxy", " \n", "metadata.signed_secret_file: proxy is empty"),
        (
            "proxy",
            "s3cret" * 700,
            "metadata.signed_secret_file: proxy cannot be read: it has more than 4 KiB",
        ),
        ("tokens", "two words\n", "tokens:1: the line is neither TOKEN nor NAME:TOKEN"),
        ("a.key", "", "webhook.secret_file: a.key must have a key on one line"),
        ("a.key", "s3cret\n", "webhook.secret_file: a.key must have whsec_"),
        (
            "a.key",
            "s3cret\n" * 600,
            "webhook.secret_file: a.key cannot be read: it has more than 4 KiB",
        ),
        ("authorities.pem", "s3cret\n", "webhook.ca_file: authorities.pem cannot"),
    ],
)
def test_each_invalid_file_is_reported_without_its_content(
    name: str, text: str, expected: str
) -> None:
    Path(name).write_text(text)
    [error] = faults()
    assert expected in error
    assert "s3cret" not in error
    assert "words" not in error


def test_each_missing_program_is_reported() -> None:
    Path("forewarn.toml").write_text(EVERYTHING.replace("true", "no-such-program"))
    assert [fault.split(" ")[1] for fault in faults()] == [
        "driver.command.freeze:",
        "driver.command.reboot:",
        "driver.command.observe:",
    ]


def test_driver_without_programs_is_reported() -> None:
    lines = EVERYTHING.splitlines(keepends=True)
    some = [line for line in lines if not line.startswith(("freeze", "reboot"))]
    Path("forewarn.toml").write_text("".join(some))
    [error] = faults()
    assert "names no program for any action" in error


def test_two_programs_that_observe_are_reported() -> None:
    text = EVERYTHING.replace("observe =", 'observe_many = ["true"]\nobserve =')
    Path("forewarn.toml").write_text(text)
    [error] = faults()
    assert "driver.command.observe_many: observe is set too" in error


def test_all_problems_are_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("proxy", "data", "a.key", "authorities.pem"):
        without(name)
    Path("tokens").write_text(
        "policy:s3cret-of-24-characters-x7\nvm-1:s3cret-of-24-characters-x7\ngood:s3cret-of-24-characters-x7\nbad:s3cret\n"
    )
    assert cli.main(["config", "check"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [
        line for line in printed.err.splitlines() if line.startswith("forewarn.toml:")
    ]
    assert len(lines) == 8
    assert "tokens:1: 'policy' is a reserved name" in printed.err
    assert "tokens:2: 'vm-1' is a reserved name" in printed.err
    assert "tokens:4: this token can be guessed" in printed.err
    assert "`forewarn serve` would not start" in printed.err
    assert "s3cret" not in printed.err


def test_world_readable_secrets_cause_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("proxy", "tokens", "b.key"):
        Path(name).chmod(0o644)
    assert [warning.partition(" can be read")[0] for warning in _warnings()] == [
        "tokens (admin.token_file)",
        "proxy (metadata.signed_secret_file)",
        "b.key (secret_file of webhook b)",
    ]
    # This is only a warning, so the service starts.
    assert cli.main(["config", "check"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "the settings and the files that they name are valid\n"
    assert (
        printed.err.count("set its mode to 600, or to 640 with the service's group")
        == 3
    )


def _warnings() -> list[str]:
    return list(secret_files.open_files(settings()))
