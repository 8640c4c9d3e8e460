"""`[lock]` in the settings: what it makes, and every fault with its place."""

from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent.core.policy import LockTerms, Rule
from forewarn.agent.core.rules import sum_of
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import LockSettings, Settings
from forewarn.instants import HOUR, MINUTE, SECOND

FLEETLOCK = 'kind = "fleetlock"\nurl = "http://192.0.2.1:3333/base"\n'
RULE = '[[rule]]\ntype = ["Freeze"]\napprove = "at once"\n'


def load(text: str, directory: Path, **flags: str) -> Settings:
    file = directory / "agent.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file=str(file), environ={}, flags=flags)


def faults(text: str, directory: Path) -> list[str]:
    with pytest.raises(AgentSettingsError) as refused:
        load(text, directory)
    file = f"{directory / 'agent.toml'}:"
    return [str(problem).removeprefix(file) for problem in refused.value.problems]


def test_no_lock_is_used_without_a_lock_table(tmp_path: Path) -> None:
    settings = load("", tmp_path)
    assert settings.lock == LockSettings()
    assert settings.policy.lock is None


def test_fleetlock_needs_a_url_only(tmp_path: Path) -> None:
    settings = load(f"[lock]\n{FLEETLOCK}", tmp_path)
    assert settings.policy.lock == LockTerms(
        label="lock default (fleetlock at http://192.0.2.1:3333/base)",
        margin=10 * SECOND,
        timeout=30 * SECOND,
    )


def test_every_lock_option_is_applied(tmp_path: Path) -> None:
    text = (
        '[lock]\nkind = "consul"\ngroup = "web"\nid = "node-9"\nholders = 2\n'
        'ttl = "2h"\npause = "5m"\nmargin = "1m"\nat_deadline = "withhold"\n'
        'timeout = "5s"\n'
    )
    settings = load(text, tmp_path)
    assert settings.lock.holders == 2
    assert settings.policy.lock == LockTerms(
        label="lock web (consul)",
        holder="node-9",
        pause=5 * MINUTE,
        margin=MINUTE,
        withholds=True,
        ttl=2 * HOUR,
        timeout=5 * SECOND,
    )


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ('kind = "directory"\npath = "/mnt/locks"', "(directory at /mnt/locks)"),
        ('kind = "kubernetes"', "(kubernetes)"),
        ('kind = "kubernetes"\nnamespace = "ops"', "(kubernetes at ops)"),
        ('kind = "consul"\nurl = "http://127.0.0.1:8500"', "(consul at http://127"),
    ],
)
def test_label_identifies_the_lock(text: str, label: str, tmp_path: Path) -> None:
    terms = load(f"[lock]\n{text}\n", tmp_path).policy.lock
    assert terms is not None
    assert label in terms.label


def test_flags_and_environment_variables_set_lock_options(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f"[lock]\n{FLEETLOCK}", encoding="utf-8")
    settings = load_settings(
        file=str(file),
        environ={"FOREWARN_AGENT_LOCK_GROUP": "db"},
        flags={"lock.at_deadline": "withhold"},
    )
    assert (settings.lock.group, settings.lock.at_deadline) == ("db", "withhold")


OF_LISTS = "is for a lock of kind kubernetes, consul or directory: "

FAULTS = {
    'group = "web"': "1: lock.kind: is missing; without it there is no lock",
    'kind = "redis"': "2: lock.kind: must be one of fleetlock, kubernetes, consul, dir",
    'kind = "fleetlock"': "1: lock.url: is missing: a lock of kind fleetlock needs it",
    'kind = "directory"': "1: lock.path: is missing: a lock of kind directory needs it",
    'kind = "directory"\npath = "locks"': (
        '3: lock.path: "locks" must be an absolute path'
    ),
    f"{FLEETLOCK}holders = 2": (
        f"4: lock.holders: {OF_LISTS}a FleetLock server has its own number of slots"
    ),
    f'{FLEETLOCK}ttl = "2h"': f"4: lock.ttl: {OF_LISTS}FleetLock has no expiry",
    'kind = "kubernetes"\nurl = "http://192.0.2.1"': (
        "3: lock.url: is for a lock of kind fleetlock or consul"
    ),
    'kind = "consul"\nnamespace = "ops"': (
        "3: lock.namespace: is for a lock of kind kubernetes"
    ),
    f'{FLEETLOCK}group = "web/1"': (
        "4: lock.group: may contain only letters, digits, - and periods"
    ),
    'kind = "kubernetes"\ngroup = "Web"': (
        "3: lock.group: may contain only lower-case letters, digits, - and periods, as "
        "names of Leases"
    ),
    'kind = "kubernetes"\nnamespace = "Ops"': (
        '3: lock.namespace: "Ops" is not a valid namespace'
    ),
    f'{FLEETLOCK}at_deadline = "abort"': (
        '4: lock.at_deadline: must be one of approve, withhold, not "abort"'
    ),
    f"{FLEETLOCK}holder = 2": "4: lock.holder: there is no such setting",
    'kind = "consul"\nholders = 0': "3: lock.holders: must be 1 to 1000",
    'kind = "consul"\nttl = "5s"': "3: lock.ttl: must be at least 1m",
    'kind = "consul"\nurl = "consul:8500"': "3: lock.url: 'consul:8500' is not a URL",
}


@pytest.mark.parametrize("text", FAULTS)
def test_error_is_reported_with_its_location(text: str, tmp_path: Path) -> None:
    [found] = faults(f"[lock]\n{text}\n", tmp_path)
    assert found.startswith(FAULTS[text])


def test_rule_may_skip_the_lock(tmp_path: Path) -> None:
    settings = load(f"[lock]\n{FLEETLOCK}\n{RULE}lock = false\n{RULE}", tmp_path)
    assert [rule.lock for rule in settings.policy.rules] == [False, True]
    assert settings.warnings == ()


def test_lock_option_of_a_rule_without_a_lock_table_causes_a_warning(
    tmp_path: Path,
) -> None:
    settings = load(f"{RULE}lock = true\n", tmp_path)
    assert settings.warnings == ("rule 1: lock has no effect without a table [lock]",)


def test_lock_option_with_its_default_does_not_change_the_rule_checksum() -> None:
    """An upgrade in the middle of an event changes no rule."""
    rule = Rule(name="rule 1", groups=(("drain",),))
    assert sum_of(rule) == sum_of(replace(rule, lock=True))
    assert sum_of(rule) != sum_of(replace(rule, lock=False))
