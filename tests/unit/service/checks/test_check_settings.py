"""[check.NAME] in forewarn.toml: keys of each kind, files, and the setting of campaigns."""

from pathlib import Path

import pytest

from forewarn.instants import MINUTE, SECOND
from forewarn.service.checking import check
from forewarn.service.secret_files import open_files
from forewarn.service.settings import (
    Settings,
    SettingsError,
    describe,
    load_settings,
    policy,
)
from forewarn.service.settings_model import CheckSettings

PROMQL = '[check.errors]\nkind = "promql"\nurl = "http://prom:9090"\nquery = "up"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "forewarn.toml"


def load(file: Path, text: str) -> Settings:
    file.write_text(text)
    return load_settings(file=file, environ={}, flags={})


def test_checks_are_read_with_their_origins(file: Path) -> None:
    headers = 'headers = { X-Scope-OrgID = "ops" }\n'
    settings = load(
        file,
        f'{PROMQL}below = 0.5\nabove = -1\n{headers}every = "1m"\n'
        '[check.page]\nkind = "http"\nurl = "https://x.example/health?key=hush"\n'
        '[check.disks]\nkind = "command"\nprogram = ["/bin/true"]\n',
    )
    errors, page, disks = settings.check
    assert errors == CheckSettings(
        name="errors",
        kind="promql",
        url="http://prom:9090",
        query="up",
        below=0.5,
        above=-1,
        headers=(("X-Scope-OrgID", "ops"),),
        every=MINUTE,
    )
    assert (page.status, page.timeout) == (200, 10 * SECOND)
    assert disks.program == ("/bin/true",)
    check(settings)
    rows = {row.key: row for row in describe(settings)}
    assert rows["check.errors.below"].value == "0.5"
    assert rows["check.errors.below"].origin == f"{file}:5"
    assert rows["check.page.url"].value == "https://x.example/health?***"
    assert rows["check.disks.every"].origin == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PROMQL, "check.errors: needs below or above"),
        (f"{PROMQL}below = 1\nstatus = 200\n", "status: does not belong to a check of"),
        (f'{PROMQL}below = "1"\n', "below: must be a number"),
        ('[check.a]\nkind = "promql"\nbelow = 1\n', "needs url, because its kind is"),
        ('[check.a]\nkind = "http"\n', "check.a: needs url, because its kind is http"),
        ('[check.a]\nkind = "command"\n', "needs program, because its kind is command"),
        ('[check.a]\nkind = "ping"\n', "must be one of promql, http, command"),
        ('[check.a]\nurl = "http://x"\n', "kind"),
        ('[check.A]\nkind = "command"\nprogram = ["true"]\n', "must have a name of up"),
        (
            PROMQL.replace("9090", "9090?x=1") + "below = 1\n",
            "url: must have no query",
        ),
        (
            PROMQL.replace("//", "//alice:hush@") + "below = 1\n",
            "user names and passwords are not allowed",
        ),
        (
            f'{PROMQL}below = 1\nauthorization_file = "token"\n',
            "url: must be https, since http would show the secret",
        ),
        (
            PROMQL + 'below = 1\nheaders = { "X Y" = "a" }\n',
            '"X Y" is not the name of a header',
        ),
        (PROMQL + "below = 1\nheaders = { X = 1 }\n", "X must be a string in quotes"),
        (f'{PROMQL}below = 1\nevery = "1s"\n', "every: must be at least 5s, not 1s"),
    ],
)
def test_invalid_check_is_refused_with_its_key(
    file: Path, text: str, message: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(file, text)
    assert message in refused.value.message
    assert "hush" not in refused.value.message


def test_secret_goes_over_http_only_here_or_by_wish(file: Path) -> None:
    secret = 'below = 1\nauthorization_file = "token"\n'
    for url in ("https://prom", "http://127.0.0.1:9090"):
        assert load(file, PROMQL.replace("http://prom:9090", url) + secret).check
    assert load(file, f"{PROMQL}{secret}insecure = true\n").check


def test_files_and_programs_are_checked_before_a_start(
    file: Path, tmp_path: Path
) -> None:
    settings = load(
        file,
        PROMQL.replace("http", "https")
        + f'below = 1\nauthorization_file = "{tmp_path}/none"\nca_file = "{file}"\n'
        '[check.a]\nkind = "command"\nprogram = ["/no/such/program"]\n',
    )
    with pytest.raises(SettingsError) as refused:
        check(settings)
    message = refused.value.message
    assert "check.errors.authorization_file" in message
    assert "check.a.program: there is no program /no/such/program" in message
    settings = load(file, PROMQL + f'below = 1\nca_file = "{file}"\n')
    with pytest.raises(SettingsError, match=r"errors\.ca_file: .* cannot be used"):
        check(settings)


def test_secret_that_all_users_can_read_is_warned_of(
    file: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("hush")
    token.chmod(0o644)
    settings = load(
        file,
        f'{PROMQL}below = 1\ninsecure = true\nauthorization_file = "{token}"\n',
    )
    (warning,) = open_files(settings)
    assert "authorization_file of check errors" in warning
    assert "hush" not in warning


def test_second_person_reaches_the_decisions(file: Path) -> None:
    assert not policy(load(file, "")).second_person
    assert policy(load(file, "[campaigns]\nsecond_person = true\n")).second_person
