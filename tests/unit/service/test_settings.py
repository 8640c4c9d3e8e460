"""Settings: their sources, invalid values, and the reference page."""

import re
from pathlib import Path

import pytest

from deploy import service_reference
from forewarn.instants import DAY, HOUR, MINUTE, SECOND
from forewarn.protocol.events import EventType
from forewarn.protocol.operations import Action
from forewarn.service import array_tables, option_table
from forewarn.service.settings import (
    Settings,
    SettingsError,
    describe,
    impacts,
    load_settings,
    policy,
    value_of,
)
from forewarn.settings.forms import from_text
from tests.support.pages import check_block

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "settings.md"


def load(*, environ: dict[str, str] | None = None, **flags: str) -> Settings:
    return load_settings(
        file=None,
        environ=environ or {},
        flags={name.replace("__", "."): value for name, value in flags.items()},
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "forewarn.toml"


def problems(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file=file, environ={}, flags={})
    return [str(problem).removeprefix(str(file)) for problem in caught.value.problems]


def test_defaults_apply_without_sources() -> None:
    settings = load()
    assert settings == Settings()
    assert {row.origin for row in describe(settings)} == {"default"}


def test_flags_override_variables_and_variables_override_the_file(file: Path) -> None:
    file.write_text(
        '[metadata]\nlisten = "127.0.0.1:1"\nrate_limit = 7\n'
        'disable_after = "2h"\n[driver.simulated]\nfreeze = "3s"\n'
    )
    settings = load_settings(
        file=file,
        environ={
            "FOREWARN_METADATA_LISTEN": "127.0.0.1:2",
            "FOREWARN_METADATA_RATE_LIMIT": "8.5",
            "FOREWARN_URL": "http://elsewhere",
        },
        flags={"metadata.listen": "127.0.0.1:3"},
    )
    assert settings.metadata.listen == "127.0.0.1:3"
    assert settings.metadata.rate_limit == 8.5
    assert settings.metadata.disable_after == 2 * HOUR
    assert settings.simulated.freeze == 3 * SECOND
    rows = {row.key: row for row in describe(settings)}
    assert rows["metadata.listen"].origin == "flag --metadata-listen"
    assert (
        rows["metadata.rate_limit"].origin == "environment FOREWARN_METADATA_RATE_LIMIT"
    )
    assert rows["metadata.disable_after"].origin == f"{file}:4"
    assert rows["driver.simulated.freeze"].origin == f"{file}:6"
    assert rows["driver.simulated.freeze"].value == "3s"
    assert rows["admin.listen"].origin == "default"
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\n[metadata]\nlisen = 1\n",
            ':3: metadata.lisen: there is no such setting (did you mean "listen"?)',
        ),
        (
            "[metadta]\nlisten = 1\n",
            ':1: metadta: there is no such table (did you mean "metadata"?)',
        ),
        (
            "[metadata]\nspeed = 2\n",
            ":2: metadata.speed: there is no such setting (it belongs to [timing])",
        ),
        ("speed = 2\n", ":1: speed: there is no such table"),
        ("metadata = 2\n", ":1: metadata: must be a table: [metadata]"),
        (
            "[timing]\nspeed = 0\n",
            ":2: timing.speed: must be 0.001 to 1000000, not 0",
        ),
        ("[timing]\nspeed = nan\n", ":2: timing.speed: must be 0.001 to 1000000"),
        ('[timing]\nspeed = "2"\n', ":2: timing.speed: must be a number"),
        ("[timing]\nspeed = true\n", ":2: timing.speed: must be a number"),
        (
            "[timing]\nrecovery = 10\n",
            ":2: timing.recovery: must be a duration in quotes",
        ),
        (
            '[timing]\nrecovery = "soon"\n',
            ":2: timing.recovery: 'soon' is not a duration such as",
        ),
        (
            '[metadata]\ndisable_after = "1ms"\n',
            ":2: metadata.disable_after: must be at least 1s, not 1ms",
        ),
        (
            '[metadata]\nfirst_answer_delay = "3m"\n',
            ":2: metadata.first_answer_delay: must be at most 2m",
        ),
        (
            '[timing]\nfailure_event = "Freeze"\n',
            ":2: timing.failure_event: must be one of Reboot, Redeploy, not",
        ),
        (
            '[driver]\nkind = "proxmox"\n',
            ":2: driver.kind: must be one of simulated, command, qemu, libvirt, not",
        ),
        (
            "[driver.command]\nfreeze = []\n",
            ":2: driver.command.freeze: names no program: remove the setting",
        ),
        (
            '[driver.command]\nfreeze = "pause {vm}"\n',
            ":2: driver.command.freeze: must be a list of words such as [",
        ),
        (
            '[driver.command]\nfreeze = ["pause", 7]\n',
            ":2: driver.command.freeze: must be a list of words such as [",
        ),
        (
            '[driver.command]\nreboot = [\n "/bin/x",\n "{vmm}",\n]\n',
            ":2: driver.command.reboot: unknown placeholder {vmm} (did you mean",
        ),
        (
            '[driver.command]\nobserve = ["x", "{host}"]\n',
            ":2: driver.command.observe: unknown placeholder {host}: use one of",
        ),
        (
            '[driver.command]\nreboot = ["bin/x"]\n',
            ':2: driver.command.reboot: "bin/x" must be an absolute path',
        ),
        (
            '[driver.command]\nabortable = ["live-migrate"]\n',
            ":2: driver.command.abortable: 'live-migrate' is not one of freeze, live_",
        ),
        (
            "[driver.command]\nparallel = 0\n",
            ":2: driver.command.parallel: must be 1 to 1000",
        ),
        (
            '[driver.command]\nfreze = ["x"]\n',
            ':2: driver.command.freze: there is no such setting (did you mean "freeze"',
        ),
        (
            '[driver.simulated]\nfaults = ["reboot"]\n',
            ":2: driver.simulated.faults: 'reboot' is not a fault: write ACTION KIND",
        ),
        (
            '[driver.simulated]\nfaults = "reboot fail"\n',
            ":2: driver.simulated.faults: must be a list of faults such as [",
        ),
        (
            '[driver.simulated]\nfaults = [\n "any fail",\n "any explode",\n]\n',
            ":2: driver.simulated.faults: 'explode' is not one of fail, stall, lie, ref",
        ),
        ("[driver]\nattempts = 1.5\n", ":2: driver.attempts: must be a whole number"),
        ("[driver]\nattempts = 0\n", ":2: driver.attempts: must be 1 to 100, not 0"),
        ('[store]\nurl = "redis://x"\n', ":2: store.url: 'redis://x' is not the URL"),
        ('[admin]\nlisten = ""\n', ":2: admin.listen: '' is not a listen address"),
        (
            '[admin]\nlisten = "8200"\n',
            ":2: admin.listen: '8200' is not a listen address",
        ),
        ("[admin\n", ":1: this is not TOML"),
    ],
)
def test_mistake_is_reported_with_line_and_key(
    file: Path, text: str, expected: str
) -> None:
    [problem] = problems(file, text)
    assert problem.startswith(expected)


def test_all_mistakes_are_reported_together(file: Path) -> None:
    file.write_text("[timing]\nspeed = 0\nrecovery = 1\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(
            file=file,
            environ={"FOREWARN_DRIVER_ATTEMPTS": "many"},
            flags={"store.url": "", "timing.spede": "1"},
        )
    assert len(caught.value.problems) == 5
    assert 'environment FOREWARN_DRIVER_ATTEMPTS: "many"' in caught.value.message
    assert (
        'flag --timing-spede: there is no such setting (did you mean "timing.speed"'
        in (caught.value.message)
    )


@pytest.mark.parametrize(
    ("environ", "flags", "told"),
    [
        ({}, {"admin__listen": "0.0.0.0:1"}, "flag --admin-listen: 0.0.0.0:1 is"),
        (
            {"FOREWARN_ADMIN_LISTEN": "0.0.0.0:1"},
            {},
            "environment FOREWARN_ADMIN_LISTEN: admin.listen: 0.0.0.0:1 is",
        ),
    ],
)
def test_conflicting_settings_are_named_once(
    environ: dict[str, str], flags: dict[str, str], told: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ=environ, **flags)
    assert caught.value.message.startswith(told)


@pytest.mark.parametrize("text", ["nan", "x", "-1", "0", "inf"])
def test_number_from_text_is_bounded(text: str) -> None:
    with pytest.raises(SettingsError):
        load(timing__speed=text)


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load_settings(file=tmp_path / "missing", environ={}, flags={})
    other = tmp_path / "latin1"
    other.write_bytes(b"# one\n# \xe4")
    with pytest.raises(SettingsError, match=r"latin1:2: is not UTF-8"):
        load_settings(file=other, environ={}, flags={})


def test_variable_with_a_typo_causes_a_warning() -> None:
    settings = load(
        environ={
            "FOREWARN_METADATA_LISTN": "x",
            "FOREWARN_ADMIN_SERVICE_HOST_OF_KUBERNETES": "10.0.0.1",
        }
    )
    [warning] = settings.warnings
    assert warning == (
        'the variable "FOREWARN_METADATA_LISTN" is not used '
        '(did you mean "FOREWARN_METADATA_LISTEN"?)'
    )


def test_api_on_a_public_address_needs_tokens() -> None:
    with pytest.raises(SettingsError, match=r"admin\.token_file must name a file"):
        load(admin__listen="0.0.0.0:8200")
    for listen in ("127.0.0.1:1", "[::1]:1", "localhost:1", "127.1.2.3:1"):
        load(admin__listen=listen)
    load(admin__listen="0.0.0.0:8200", admin__token_file="token")


def test_speed_divides_only_notices_impacts_recovery_and_holds() -> None:
    settings = load(timing__speed="60", timing__terminate_notice="5m")
    scaled = policy(settings)
    assert scaled.freeze_notice == scaled.reboot_notice == 15 * SECOND
    assert scaled.redeploy_notice == scaled.recovery == 10 * SECOND
    assert scaled.preempt_notice == SECOND // 2
    assert scaled.terminate_notice == 5 * SECOND
    assert scaled.failure_notice == 7 * DAY // 60
    assert scaled.hold_max == 24 * MINUTE
    assert scaled.speed == 60
    assert scaled.failure_event is EventType.REBOOT
    assert impacts(settings)[Action.REBOOT] == SECOND
    assert impacts(settings)[Action.LIVE_MIGRATE] == 5 * SECOND // 60
    assert scaled.disable_after == 24 * HOUR
    assert scaled.driver_timeout == 30 * MINUTE
    assert scaled.retry_delay == 10 * SECOND
    assert scaled.retention == 30 * DAY


def test_program_can_be_set_as_text(file: Path) -> None:
    settings = load(
        driver__command__freeze="/bin/sh -c 'sleep 1' x {vm}",
        driver__command__abortable="freeze reboot",
    )
    assert settings.command.freeze == ("/bin/sh", "-c", "sleep 1", "x", "{vm}")
    assert settings.command.abortable == ("freeze", "reboot")
    rows = {row.key: row.value for row in describe(settings)}
    assert rows["driver.command.freeze"] == "/bin/sh -c 'sleep 1' x '{vm}'"
    file.write_text('[driver.command]\nfreeze = ["/bin/x"]\nabortable = []\n')
    settings = load_settings(
        file=file, environ={"FOREWARN_DRIVER_COMMAND_FREEZE": ""}, flags={}
    )
    assert settings.command.freeze == settings.command.abortable == ()
    for wrong in ("'x", "/bin/x {y}"):
        with pytest.raises(SettingsError):
            load(driver__command__freeze=wrong)


def test_faults_can_be_set_as_comma_separated_text(file: Path) -> None:
    text = "reboot fail times=2, any stall vm=web_0"
    settings = load(driver__simulated__faults=text)
    assert settings.simulated.faults == tuple(text.split(", "))
    rows = {row.key: row.value for row in describe(settings)}
    assert rows["driver.simulated.faults"] == text
    file.write_text('[driver.simulated]\nfaults = ["reboot fail"]\n')
    assert load_settings(file=file, environ={}, flags={}).simulated.faults == (
        "reboot fail",
    )
    nothing = {"FOREWARN_DRIVER_SIMULATED_FAULTS": ""}
    assert not load_settings(file=file, environ=nothing, flags={}).simulated.faults
    with pytest.raises(SettingsError, match="'' is not a fault"):
        load(driver__simulated__faults="reboot fail,")


def test_a_password_is_never_shown() -> None:
    for url in (
        "postgresql://forewarn:s3cret@db/forewarn",
        "postgresql://forewarn@db/forewarn?password=s3cret",
    ):
        with pytest.raises(SettingsError, match="a password in the URL") as raised:
            load(store__url=url)
        assert "s3cret" not in str(raised.value)


def test_shown_values_can_be_read_again() -> None:
    rows = describe(load())
    again = load_settings(
        file=None, environ={}, flags={row.key: row.value for row in rows}
    )
    assert [row.value for row in describe(again)] == [row.value for row in rows]


def test_reference_page_lists_exactly_the_settings(
    request: pytest.FixtureRequest,
) -> None:
    rewrite = bool(request.config.getoption("--rewrite"))
    for name, wanted in service_reference.tables().items():
        check_block(PAGE, f"settings {name}", wanted, rewrite=rewrite)
    rows = re.findall(
        r"^\| `([a-z_.]+)` \| (\S+|`[^`|]+`) \|", PAGE.read_text(), re.MULTILINE
    )
    assert [name for name, _ in rows] == [
        *option_table.OPTIONS,
        *(f"webhook.{key}" for key in array_tables.OPTIONS["webhook"]),
    ]
    for name, told in rows[: len(option_table.OPTIONS)]:
        text = told.strip("`").replace("empty", "")
        parsed = from_text(option_table.OPTIONS[name], text)
        assert parsed == value_of(Settings(), name), name


def test_page_marks_the_settings_that_speed_divides() -> None:
    marked = set(
        re.findall(r"^\| `([a-z_.]+)` \| \S+ \| ÷", PAGE.read_text(), re.MULTILINE)
    )
    plain, fast = load(), load(timing__speed="2", timing__terminate_notice="5m")
    at_once = {
        f"timing.{name}"
        for name in [
            "freeze_notice",
            "reboot_notice",
            "redeploy_notice",
            "preempt_notice",
            "failure_notice",
            "recovery",
            "hold_max",
            "verify_settle",
        ]
        if getattr(policy(fast), name) * 2 == getattr(policy(plain), name)
    }
    simulated = {
        name for name in option_table.OPTIONS if name.startswith("driver.simu")
    }
    simulated -= {
        f"driver.simulated.{name}"
        for name in (
            "faults",
            "limited",
            "target_hosts",
            "marks",
        )
    }
    assert marked == at_once | simulated | {"timing.terminate_notice"}


def test_switch_accepts_true_and_false(file: Path) -> None:
    file.write_text("[metadata]\npush = true\n")
    settings = load_settings(file=file, environ={}, flags={})
    assert settings.metadata.push is True
    assert load(metadata__push="true").metadata.push is True
    assert load(metadata__push="false").metadata.push is False
    [row] = [row for row in describe(settings) if row.key == "metadata.push"]
    assert row.value == "true"


def test_event_details_are_off_by_default() -> None:
    assert load().metadata.event_details is False
    assert load(metadata__event_details="true").metadata.event_details is True


@pytest.mark.parametrize("text", ["True", "1", "yes", ""])
def test_switch_rejects_other_values(text: str) -> None:
    with pytest.raises(SettingsError, match="must be true or false"):
        load(metadata__push=text)


def test_quoted_boolean_in_a_file_is_rejected(file: Path) -> None:
    assert problems(file, '[metadata]\npush = "true"\npush_longest_wait = "11m"') == [
        ':2: metadata.push: must be true or false, not the text "true"',
        ":3: metadata.push_longest_wait: must be at most 10m",
    ]


def test_all_settings_that_do_not_fit_together_are_reported(file: Path) -> None:
    text = (
        '[cluster]\nname = "c1-a"\nurl = "https://a/v1"\n[admin]\n'
        'listen = "0.0.0.0:8200"\ntls_certificate = "a.pem"\n'
    )
    assert problems(file, text) == [
        ":3: cluster.url: must end after the host and port",
        ":2: cluster.name: needs a store.url of PostgreSQL, which all replicas share",
        ":3: cluster.url: needs a store.url of PostgreSQL, which all replicas share",
        ":6: admin.tls_certificate: needs admin.tls_key too",
        (
            ":5: admin.listen: 0.0.0.0:8200 is reachable from other machines, so "
            "admin.token_file must name a file with tokens"
        ),
    ]
