"""Settings of the agent: where they come from, and every fault told at once."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import agent_reference
from forewarn.agent import option_table
from forewarn.agent.array_tables import ENTRIES, keys_of
from forewarn.agent.core.policy import Approve, Approver, Standby, Window
from forewarn.agent.core.rules import default_rules
from forewarn.agent.integrations.registry import HANDLERS, SINKS
from forewarn.agent.observability import metric_definitions
from forewarn.agent.options import Forms, environment_name
from forewarn.agent.settings import AgentSettingsError, describe, load_settings
from forewarn.agent.settings_model import Settings
from forewarn.instants import MINUTE, SECOND
from forewarn.settings.forms import Option, flag_of, from_text, from_toml
from tests.support.pages import REFERENCE, ROOT, check_block

EVERYTHING = """
endpoint = "http://127.0.0.1:8301/"
name = "web_0"
margin = "3s"

[log]
level = "debug"

[peers]
listen = "127.0.0.1:9465"
token_file = "peers"
url = { web_1 = "http://192.0.2.5:9465" }

[standby]
names = ["web_1"]
after = "2m"

[[handler]]
name = "drain"
kind = "exec"
prepare = ["/usr/local/bin/drain", "--all"]
recover = "/usr/local/bin/undrain"
retries = 2
environment = { POOL = "blue" }

[[handler]]
name = "tell"
kind = "webhook"
prepare = "https://hooks.example.com/down"
headers = { X-Key = "{secret}" }
secret_file = "secret"
required = false

[[rule]]
type = "Freeze"
max_duration = 8
approve = "at once"

[[rule]]
name = "everything"
handlers = [["drain", "tell"]]
start = "NotBefore - 5m"
approver = "all"
takeover = "20s"

[[window]]
days = ["sat", "sun"]
begins = "22:00"
ends = "06:00"
zone = "UTC"

[[notify]]
kind = "file"
path = "told.jsonl"
on = ["approved"]
"""


def load(tmp_path: Path, text: str, **flags: str) -> Settings:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    return load_settings(file=str(file), environ={}, flags=flags)


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(AgentSettingsError) as caught:
        load(tmp_path, text)
    return [
        str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems
    ]


def test_default_policy_applies_without_settings() -> None:
    settings = load_settings(environ={}, flags={})
    assert settings == Settings(policy=settings.policy)
    assert settings.policy.rules == default_rules(())
    assert {row.origin for row in describe(settings)} == {"default"}


def test_every_setting_is_read_from_the_file(tmp_path: Path) -> None:
    settings = load(tmp_path, EVERYTHING)
    assert settings.watch.endpoint == "http://127.0.0.1:8301"
    assert settings.peers.urls == (("web_1", "http://192.0.2.5:9465"),)
    drain, tell = settings.handlers
    assert drain.prepare == ("/usr/local/bin/drain", "--all")
    assert drain.recover == ("/usr/local/bin/undrain",)
    assert drain.environment == (("POOL", "blue"),)
    assert tell.headers == (("X-Key", "{secret}"),)
    policy = settings.policy
    assert [(h.name, h.recovers, h.required) for h in policy.handlers] == [
        ("drain", True, True),
        ("tell", False, False),
    ]
    first, second = policy.rules
    assert (first.name, first.approve) == ("rule 1", Approve.AT_ONCE)
    assert second.groups == (("drain", "tell"),)
    assert (second.start_before, second.takeover) == (5 * MINUTE, 20 * SECOND)
    assert (second.approve, second.approver) == (Approve.PREPARED, Approver.ALL)
    assert policy.windows == (
        Window(days=frozenset({5, 6}), begins=22 * 60, ends=6 * 60),
    )
    assert policy.standby == Standby(names=("web_1",), after=2 * MINUTE)
    assert policy.has_peers
    assert policy.margin == 3 * SECOND
    assert settings.notify[0].on == ("approved",)
    rows = {row.key: row for row in describe(settings)}
    assert rows["log.level"].origin.endswith("agent.toml:7")
    assert rows["standby.after"].value == "2m"


def test_flag_overrides_environment_and_environment_overrides_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('poll = "2s"\nname = "a"\n[log]\nlevel = "error"\n')
    settings = load_settings(
        file=str(file),
        environ={
            "FOREWARN_AGENT_NAME": "b",
            "FOREWARN_AGENT_LOG_LEVEL": "debug",
            "FOREWARN_ENDPOINT": "http://127.0.0.1:1",
            "FOREWARN_AGENT_DRY_RUN": "true",
        },
        flags={"name": "c", "standby.names": "d, e"},
    )
    assert settings.watch.poll == 2 * SECOND
    assert settings.watch.name == "c"
    assert settings.watch.dry_run
    assert settings.watch.endpoint == "http://127.0.0.1:1"
    assert settings.log.level == "debug"
    assert settings.policy.standby == Standby(names=("d", "e"))
    assert settings.origins["name"] == "flag --name"
    assert settings.warnings == ()


def test_mistyped_variable_is_refused() -> None:
    """A user who meant a dry run must not get an agent that acts."""
    with pytest.raises(AgentSettingsError) as refused:
        load_settings(
            environ={
                "FOREWARN_AGENT_DRYRUN": "true",
                "FOREWARN_AGENT_POL": "1s",
                # None of the agent's: the service's, and what Kubernetes makes of a
                # Service that is called forewarn-agent.
                "FOREWARN_PORT": "1",
                "FOREWARN_AGENT_SERVICE_HOST": "192.0.2.1",
                "FOREWARN_AGENT_SERVICE_PORT_METRICS": "9464",
                "FOREWARN_AGENT_PORT": "tcp://192.0.2.1:9464",
                "FOREWARN_AGENT_PORT_9464_TCP_ADDR": "192.0.2.1",
                "FOREWARN_AGENT_METRICS_PORT": "tcp://192.0.2.1:9464",
            },
            flags={},
        )
    first, second = map(str, refused.value.problems)
    assert first == (
        'environment "FOREWARN_AGENT_DRYRUN": there is no such setting '
        '(did you mean "FOREWARN_AGENT_DRY_RUN"?)'
    )
    assert '"FOREWARN_AGENT_POL"' in second
    assert 'did you mean "FOREWARN_AGENT_POLL"' in second


def test_all_errors_are_reported_with_their_lines(tmp_path: Path) -> None:
    text = (
        'pol = "1s"\n'
        "dry_run = 1\n"
        "[log]\n"
        'level = "inf"\n'
        "[[handler]]\n"
        'name = "drain"\n'
        'kind = "exec"\n'
        'prepare = "bin/drain"\n'
        "[[rule]]\n"
        'handlers = ["drian"]\n'
        "[[rule]]\n"
        'type = ["Terminate"]\n'
        'approve = "at once"\n'
    )
    expected = """\
agent.toml:1: pol: there is no such setting (did you mean "poll"?)
agent.toml:2: dry_run: must be true or false, not 1
agent.toml:4: log.level: must be one of debug, info, warning, error, not "inf" \
(did you mean "info"?)
agent.toml:8: handler.prepare: "bin/drain" must be an absolute path, or a name \
without slashes
agent.toml:10: rule.handlers: there is no handler "drian" (did you mean "drain"?)
agent.toml:13: rule.approve: a Terminate is never approved unprepared"""
    assert faults(tmp_path, text) == expected.splitlines()


HANDLER = '[[handler]]\nname = "a"\nkind = "exec"\nprepare = "true"\n'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("= 1", "not TOML"),
        (f"a = {'[' * 5_000}", "nested too deeply"),
        ("[[rule]]\n", 'it must say approve = "at once" or "never"'),
        ("[[rule]]\nhandlers = []\n", 'it must say approve = "at once" or "never"'),
        ('[[rule]]\napprove = "when prepared"', "no handler prepares"),
        ('[[rule]]\nhandlers = ["a"]\napprove = "at once"', "preparation comes first"),
        ('[[rule]]\nmine = false\napprove = "at once"', "see [standby]"),
        ('[[rule]]\nhandlers = ["a"]\napprover = "all"', "write [peers] url"),
        ('[[rule]]\nhandlers = ["a"]\ntakeover = "5s"', "has no effect"),
        ('[[rule]]\nhandlers = ["a"]\nstart = "NotBefore - 1s"', "leaves no time"),
        (
            '[[rule]]\napprove = "never"\nstart = "NotBefore - 1m"',
            "no handlers to start",
        ),
        (
            '[[rule]]\nhandlers = ["a"]\nstart = { b = "NotBefore - 5m" }',
            'the rule has no handler "b"',
        ),
        (
            '[[rule]]\nhandlers = ["a"]\nstart = { a = "NotBefore - 1s" }',
            "leaves no time",
        ),
        ('[[rule]]\nhandlers = ["a"]\nstart = { a = 5 }', "must be"),
        ('[[rule]]\nhandlers = ["a", "a"]', "is there twice"),
        ('[[rule]]\napprove = "never"\nmin_lead = "2m"\nmax_lead = "1m"', "is less"),
        ('[[rule]]\napprove = "never"\ntype = "Freze"', 'did you mean "Freeze"'),
        ('[[rule]]\napprove = "never"\nhandler = ["a"]', 'did you mean "handlers"'),
        ('[[handler]]\nname = "b"\nkind = "exec"', "it has no action"),
        ('[[handler]]\nname = "b"', "handler.kind: is missing"),
        ('[[handler]]\nname = "b"\nkind = "python"\nprepare = "x"', "module:function"),
        ('[[handler]]\nname = "b"\nkind = "webhook"\nprepare = "x"', "is not a URL"),
        (HANDLER + 'url = "x"', "there is no such setting"),
        (HANDLER + 'method = "PUT"', "is for handlers of kind webhook"),
        (HANDLER + "always = true", "there is no action to run"),
        (HANDLER + 'environment = { FOREWARN_X = "1" }', "set by the agent itself"),
        (HANDLER + HANDLER, "is there twice"),
        ("handler = 1", "[[handler]]"),
        ("log = 1", "must be a table"),
        ("[logs]\n", 'no such table (did you mean "log"?)'),
        ('level = "info"', "it belongs to [log]"),
        ('kind = "exec"', "it belongs to [[handler]]"),
        ('[peers]\nlisten = "127.0.0.1:1"', "requests of peers need a token"),
        ('[peers]\nurl = "http://x:1"', "{name}"),
        ('listen = "x"', "not a listening address"),
        ('poll = "1ms"', "at least 100ms"),
        ('endpoint = "http://u:secret@h"', "user names and passwords"),
        ('[[window]]\nbegins = "25:00"\nends = "06:00"', "a time of day"),
        ('[[window]]\nbegins = "22:00"\nends = "06:00"\nzone = "Mars"', "no time zone"),
        ('[[blackout]]\nbegins = "22:00"', "blackout.ends: is missing"),
        ('[[notify]]\nkind = "file"', "path is missing"),
        ('[[notify]]\nkind = "webhook"\nurl = "http://h"\npath = "x"', "of kind file"),
    ],
)
def test_each_fault_is_reported_with_its_message(
    tmp_path: Path, text: str, fault: str
) -> None:
    message = "\n".join(faults(tmp_path, HANDLER + text if "rule" in text else text))
    assert fault in message
    assert "secret@" not in message


@pytest.mark.parametrize("kind", sorted(HANDLERS))
def test_always_defaults_to_true_for_cluster_handlers(
    tmp_path: Path, kind: str
) -> None:
    needed = {
        "systemd": 'stop = ["x"]',
        "docker": "all = true",
        "podman": "all = true",
        "haproxy": 'socket = "/x"\nservers = ["a/b"]',
    }
    text = f'[[handler]]\nname = "a"\nkind = "{kind}"\n{needed.get(kind, "")}\n'
    is_usual = kind in {"kubernetes", "nomad", "pacemaker", "slurm"}
    for more, is_on in (
        ("", is_usual),
        ("always = true\n", True),
        ("always = false\n", False),
    ):
        file = tmp_path / "agent.toml"
        file.write_text(text + more)
        settings = load_settings(file=str(file), environ={}, flags={})
        assert [handler.always for handler in settings.policy.handlers] == [is_on]


@pytest.mark.parametrize(
    "path", ["deploy/kubernetes/agent.toml", "deploy/helm/forewarn-agent/agent.toml"]
)
def test_kubernetes_manifests_recover_after_a_lost_disk(
    path: str,
) -> None:
    file = ROOT / path
    settings = load_settings(file=str(file), environ={}, flags={})
    assert settings.policy.handlers
    assert all(handler.always for handler in settings.policy.handlers)


MAY_BE_EMPTY = {
    *("names of standby", "handlers of rule", "ignore of gate"),
    *("keep of docker", "keep of podman", "leave of pacemaker"),
}
"""Lists that say by [] what they say where they are not written: none."""

LISTS = {Forms.WORDS, Forms.NAMES, Forms.ACTION, Forms.GROUPS, Forms.DAYS}


def every_list() -> Iterator[tuple[str, Option]]:
    tables = {**ENTRIES}
    kinds = {**dict.fromkeys(HANDLERS, "handler"), **dict.fromkeys(SINKS, "notify")}
    for word, array in kinds.items():
        own = keys_of(array, word).items() - ENTRIES[array].items()
        tables[word] = dict(sorted(own, key=lambda item: item[0]))
    for name, option in option_table.OPTIONS.items():
        if option.form in LISTS:
            yield f"{name.rpartition('.')[2]} of {name.rpartition('.')[0]}", option
    for table, known in tables.items():
        for key, option in known.items():
            if option.form in LISTS:
                yield f"{key} of {table}", option


@pytest.mark.parametrize(("name", "option"), [*every_list()])
def test_empty_list_is_rejected_unless_it_has_a_meaning(
    name: str, option: Option
) -> None:
    if name in MAY_BE_EMPTY:
        assert from_toml(option, []) == ()
        return
    with pytest.raises(ValueError, match="must not be empty"):
        from_toml(option, [])
    if option.form in {Forms.WORDS, Forms.NAMES, Forms.DAYS}:
        with pytest.raises(ValueError, match="must not be empty"):
            from_text(option, " ")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (HANDLER + '[[rule]]\napprove = "never"', 'no rule names the handler "a"'),
        (
            '[[rule]]\napprove = "never"\n[[rule]]\ntype = "Freeze"\napprove = "never"',
            "rule 1 matches every event, so no rule after it has any effect",
        ),
        (
            '[[rule]]\ntype = "Hibernate"\napprove = "never"',
            '"Hibernate" is an unknown type',
        ),
    ],
)
def test_probable_mistakes_cause_warnings(
    tmp_path: Path, text: str, warning: str
) -> None:
    assert warning in "\n".join(load(tmp_path, text).warnings)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    for name, content, fault in (
        ("missing", None, "cannot be read"),
        ("bytes", b"\xff", "is not UTF-8"),
        ("large", b"#" * (1 << 20) + b"#", "is too large"),
    ):
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(AgentSettingsError, match=fault):
            load_settings(file=str(file), environ={}, flags={})
    with pytest.raises(AgentSettingsError, match="flag --x: there is no such setting"):
        load_settings(environ={}, flags={"x": "1"})


def test_flag_and_variable_names_follow_the_option_name() -> None:
    assert flag_of("log.level") == "--log-level"
    assert environment_name("peers.ca_file") == "FOREWARN_AGENT_PEERS_CA_FILE"
    flags = [flag_of(name) for name in option_table.OPTIONS]
    assert len(flags) == len(set(flags))


def test_settings_reference_is_up_to_date(request: pytest.FixtureRequest) -> None:
    page, text = REFERENCE / "agent-settings.md", agent_reference.markdown()
    if request.config.getoption("--rewrite"):
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text, "run `pytest --rewrite`"


def test_metrics_table_is_up_to_date(request: pytest.FixtureRequest) -> None:
    rewrite = bool(request.config.getoption("--rewrite"))
    page = REFERENCE / "metrics.md"
    check_block(page, "agent metrics", metric_definitions.markdown(), rewrite=rewrite)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # An unknown kind is one mistake, whatever other keys there are.
        (
            'name = "a"\nkind = "sytemd"\nstop = ["db.service"]',
            ['handler.kind: must be one of (.*)not "sytemd" \\(did you mean "systemd"'],
        ),
        # A key that is there, and wrong, is not also missing.
        (
            'name = "a"\nkind = "haproxy"\nsocket = 5\nservers = ["app/web"]',
            ["handler.socket: must be "],
        ),
        ('name = "a"\nkind = "haproxy"\nservers = ["app/web"]', ["socket: is missing"]),
        (
            'name = "a"\nkind = "consul"\nwait = "10s"\ntimeout = "5s"',
            [r"wait \(10s\) must be shorter than timeout \(5s\)"],
        ),
        (
            'name = "a"\nkind = "nomad"\ntimeout = "15s"',
            [r"force_before \(20s\) must be shorter than timeout \(15s\)"],
        ),
        ('name = "a"\nkind = "nomad"\ntimeout = "15s"\nforce = false', []),
        (
            'name = "a"\nkind = "slurm"\njobs = "wait then requeue"\ntimeout = "30s"',
            [r"requeue_before \(1m\) must be shorter than timeout \(30s\)"],
        ),
        ('name = "a"\nkind = "slurm"\ntimeout = "30s"', []),
        # Nor does it do nothing, or too little, for what it would do if it were right.
        ('name = "a"\nkind = "systemd"\nstop = []', ["stop: must not be empty"]),
        (
            'name = "a"\nkind = "systemd"\nstop = ["", "a.service"]\nkill_after = "5s"',
            ["handler.stop: must not be empty"],
        ),
        ('name = "a"\nkind = "systemd"\nstopp = "a.service"', ['did you mean "stop"']),
        ('name = "a"\nkind = "docker"\ncontainers = 5', ["containers: must be a list"]),
        ('name = "a"\nkind = "docker"\nlabels = []', ["labels: must not be empty"]),
        ('name = "a"\nkind = "docker"\nall = true\nkeep = []', []),
        ('name = "a"\nkind = "docker"\nall = true\nkeep = [""]', ["keep: must not be"]),
        ('name = "a"\nkind = "exec"\nprepare = []', ["prepare: must not be empty"]),
        ('name = "a"\nkind = "consul"\nservices = []', ["services: must not be empty"]),
        ('name = "a"\nkind = "patroni"\ncandidates = []', ["candidates: must not be"]),
        (
            'name = "a"\nkind = "patroni"\nlag_max = -1',
            ["lag_max: must be 0 to 1099511627776, not -1$"],
        ),
    ],
)
def test_each_error_of_a_handler_kind_is_reported_once(
    tmp_path: Path, text: str, told: list[str]
) -> None:
    if not told:
        assert load(tmp_path, f"[[handler]]\n{text}\n").handlers
        return
    sentences = faults(tmp_path, f"[[handler]]\n{text}\n")
    assert len(sentences) == len(told), sentences
    for sentence, wanted in zip(sentences, told, strict=True):
        assert re.search(wanted, sentence), sentence
