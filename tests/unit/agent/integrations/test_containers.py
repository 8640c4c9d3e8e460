"""Containers of docker and podman, with a fake of their commands."""

import json
from functools import partial
from pathlib import Path

import pytest

from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.integrations.containers import ContainerWorker, own
from forewarn.agent.integrations.containers.engine import Engine
from forewarn.agent.settings import AgentSettingsError, load_settings
from tests.support.fake_containers import HANGS, FakeContainers
from tests.support.handled import Handled
from tests.support.in_process import InProcess
from tests.support.jobs import context

FEW_CALLS = 4.0
"""Seconds of a short run context; a call takes one second of it."""

DOCKER_IS_AWAY = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
    "Is the docker daemon running?"
)


class Story:
    """An engine, and handlers of its containers."""

    def __init__(self, directory: Path, program: str) -> None:
        self.directory = directory
        self.program = program
        self.engine = FakeContainers(directory, program)
        self.commands = InProcess(
            {
                program: self.engine.command,
                # A command before the command, and one that is something else.
                "env": lambda words: self.engine.command(words[2:]),
                "echo": Echo,
            }
        )

    def handler(self, settings: str, **environment: str) -> Handled:
        return Handled(
            self.program,
            settings,
            self.directory,
            {"HOSTNAME": "web", **environment},
            clock=self.commands.clock,
            make=partial(ContainerWorker, commands=self.commands),
        )


class Echo:
    """A program that prints its arguments."""

    def __init__(self, words: list[str]) -> None:
        self.out = " ".join(words)
        self.err = ""

    def run(self) -> int:
        return 0


@pytest.fixture(params=["docker", "podman"])
def story(tmp_path: Path, request: pytest.FixtureRequest) -> Story:
    return Story(tmp_path, request.param)


@pytest.fixture
def on_docker(tmp_path: Path) -> Story:
    return Story(tmp_path, "docker")


# Stopping, and starting again


def test_running_containers_are_stopped_and_started_in_reverse(story: Story) -> None:
    for name in ("web", "db", "cache"):
        story.engine.run(name)
    story.engine.run("idle", "exited")
    handler = story.handler('containers = ["web", ["db", "cache", "idle"]]')
    assert handler.check() == []
    assert handler.prepare() == "stopped web, stopped db, stopped cache"
    assert story.engine.orders() == ["stop web", "stop db cache"]
    story.engine.forget_orders()
    assert handler.recover() == "started db, started cache, started web"
    assert story.engine.orders() == ["start db cache", "start web"]
    assert story.engine.status("idle") == "exited"
    assert not handler.memo.exists()


def test_prepare_and_recover_are_idempotent(story: Story) -> None:
    story.engine.run("web")
    handler = story.handler('containers = "web"')
    assert handler.prepare() == "stopped web"
    handler.again()
    assert handler.prepare() == "none of the containers was running"
    assert handler.recover() == "started web"
    handler.again()
    assert handler.recover() == "nothing had to be undone"
    assert story.engine.orders() == ["stop web", "start web"]


def test_crash_before_the_stop_leaves_nothing_to_undo(on_docker: Story) -> None:
    container = on_docker.engine.run("web")
    handler = on_docker.handler("all = true")
    handler.memo.parent.mkdir()
    handler.memo.write_text(json.dumps({"stopped": [{container: "web"}]}))
    assert handler.recover() == "nothing had to be undone"
    assert on_docker.engine.orders() == []


def test_all_stops_every_container_except_its_own_and_kept_ones(story: Story) -> None:
    for name in ("web", "db", "keeper"):
        story.engine.run(name)
    own = story.engine.run("forewarn")
    story.engine.run("frozen", "paused")
    handler = story.handler('all = true\nkeep = ["keeper"]', HOSTNAME=own[:12])
    assert handler.prepare() == "stopped web, stopped db"
    assert story.engine.orders() == ["stop web db"]
    assert handler.recover() == "started web, started db"
    named = story.handler('containers = "forewarn"', HOSTNAME=own[:12])
    assert named.fails("prepare") == "forewarn is the agent's own container"
    assert named.check() == ["forewarn is the agent's own container"]
    paused = 'containers = "forewarn"\naction = "pause"'
    assert story.handler(paused, HOSTNAME=own[:12]).fails("prepare") == (
        "forewarn is the agent's own container"
    )


MOUNTS = """\
700 600 0:51 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l/{other}
712 700 8:1 /data/{other}/files /data rw,relatime - ext4 /dev/sda1 rw
713 700 8:1 /var/lib/{made}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
714 700 8:1 /var/lib/{made}/hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw
715 700 0:52
"""
"""Mount table of a container; elsewhere there may be the ID of another."""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("mountinfo", MOUNTS),
        ("cgroup", "1:cpu:/docker/{made}\n0::/\n"),
        ("cgroup", "0::/machine.slice/libpod-{made}.scope/container\n"),
    ],
    ids=["mounts", "groups", "group-of-podman"],
)
def test_own_container_is_detected_with_host_networking(
    story: Story, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    other = story.engine.run("web")
    # As every container of swarm, Kubernetes or a unit has: that one is left alone.
    made = story.engine.run("forewarn", Labels={"PODMAN_SYSTEMD_UNIT": "agent.service"})
    kernel = story.directory / "self"
    kernel.mkdir()
    (kernel / file).write_text(text.format(made=made, other=other))
    monkeypatch.setattr(own, "SELF", str(kernel))
    handler = story.handler("all = true", HOSTNAME="web-0")
    assert handler.check() == []
    assert handler.prepare() == "stopped web"
    assert handler.recover() == "started web"
    named = story.handler('containers = "forewarn"', HOSTNAME="web-0")
    assert named.fails("prepare") == "forewarn is the agent's own container"


def test_agent_on_a_vm_is_in_no_container(
    on_docker: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = on_docker.engine.run("web")
    kernel = on_docker.directory / "self"
    kernel.mkdir()
    lines = (
        f"1 2 0:3 / /var/lib/docker/containers/{container}/mounts/shm rw - tmpfs shm rw",
        f"1 2 0:4 net:[40265] /run/docker/netns/{container} rw - nsfs nsfs rw",
    )
    (kernel / "mountinfo").write_text("\n".join(lines))
    (kernel / "cgroup").write_text("0::/system.slice/forewarn-agent.service\n")
    monkeypatch.setattr(own, "SELF", str(kernel))
    handler = on_docker.handler("all = true", HOSTNAME="web-0")
    assert handler.prepare() == "stopped web"


def test_containers_with_all_labels_are_stopped(story: Story) -> None:
    story.engine.run("web", Labels={"tier": "web", "stage": "prod"})
    story.engine.run("test", Labels={"tier": "web", "stage": "test"})
    handler = story.handler('labels = ["tier=web", "stage=prod"]')
    assert handler.prepare() == "stopped web"
    assert handler.recover() == "started web"
    assert (
        story.handler('labels = "nobody"').prepare()
        == "none of the containers was running"
    )


def test_restarting_container_is_stopped_too(on_docker: Story) -> None:
    on_docker.engine.run("web", "restarting")
    assert on_docker.handler("all = true").prepare() == "stopped web"


def test_container_can_be_selected_by_id(on_docker: Story) -> None:
    container = on_docker.engine.run("web")
    assert (
        on_docker.handler(f'containers = "{container[:12]}"').prepare() == "stopped web"
    )


# How long it may take


@pytest.mark.parametrize(
    ("settings", "own", "seconds", "order"),
    [
        ("", {}, 60.0, "stop web"),
        ("", {"StopTimeout": 60}, 90.0, "stop web"),
        ("", {"StopTimeout": 60}, 60.0, "stop -t 57 web"),
        ("", {"StopTimeout": -1}, 60.0, "stop -t 57 web"),
        ("", {}, 4.0, "stop -t 1 web"),
        ('grace = "3s"', {"StopTimeout": 60}, 60.0, "stop -t 3 web"),
        ('grace = "1h"', {}, 60.0, "stop -t 57 web"),
    ],
)
def test_stop_timeout_fits_the_remaining_time(
    on_docker: Story, settings: str, own: dict[str, int], seconds: float, order: str
) -> None:
    on_docker.engine.run("web", "running", **own)
    on_docker.handler(f'containers = "web"\n{settings}').prepare(seconds)
    assert on_docker.engine.orders() == [order]


def test_killed_container_is_reported(story: Story) -> None:
    story.engine.run("db", takes=30)
    story.engine.run("hog", takes=30, OOMKilled=True)
    handler = story.handler('containers = [["db", "hog"]]')
    assert handler.prepare() == "killed db, stopped hog"


def test_a_stop_that_hangs_ends_with_the_run(story: Story) -> None:
    story.engine.run("web", takes=HANGS)
    handler = story.handler('containers = "web"')
    assert handler.fails("prepare", FEW_CALLS) == ("timed out while stopping web")


def test_stopping_container_is_awaited(story: Story) -> None:
    story.engine.run("web", lingers=3)
    handler = story.handler('containers = "web"')
    assert handler.prepare() == "stopped web"
    story.engine.change("web", status="running", lingers=99)
    assert handler.fails("prepare", FEW_CALLS + 2) == (
        "timed out while waiting for web (stopping) to stop"
    )


# Containers that have changed


def test_removal_of_a_container_with_rm_is_reported(story: Story) -> None:
    story.engine.run("job", AutoRemove=True)
    handler = story.handler('containers = "job"')
    assert handler.check() == [
        (
            "job was started with --rm: the engine removes it when it stops, and "
            "the handler cannot start it again"
        )
    ]
    assert handler.prepare() == "stopped job, which is removed now (--rm)"
    # The next event finds nothing to stop, which is not an error in the settings.
    assert handler.prepare() == "none of the containers was running"
    assert handler.recover() == "nothing had to be undone"
    assert handler.fails("prepare") == "there is no container job"


def test_container_removed_in_the_meantime_is_reported_once(story: Story) -> None:
    story.engine.run("web")
    story.engine.run("db")
    handler = story.handler('containers = [["web", "db"]]')
    handler.prepare()
    story.engine.remove("web")
    message = "web was removed in the meantime and cannot be started"
    assert handler.fails("recover") == message
    assert story.engine.status("db") == "running"
    assert handler.recover() == "nothing had to be undone"


def test_container_recreated_in_the_meantime_is_not_changed(story: Story) -> None:
    story.engine.run("web")
    handler = story.handler('containers = "web"')
    handler.prepare()
    story.engine.remove("web")
    story.engine.run("web")
    assert handler.recover() == "nothing had to be undone"


def test_restarted_container_is_stopped_again(story: Story) -> None:
    story.engine.run("web", respawns=1)
    handler = story.handler('containers = "web"')
    assert handler.prepare() == "stopped web, stopped web"


def test_container_that_is_always_restarted_fails_the_preparation(story: Story) -> None:
    story.engine.run("web", respawns=9, Labels={"PODMAN_SYSTEMD_UNIT": "web.service"})
    handler = story.handler("all = true")
    by = "a systemd unit, which would restart it: stop the unit"
    assert handler.check() == [f"web belongs to {by}"]
    assert handler.fails("prepare") == (
        f"web was restarted after it was stopped, by {by}"
    )


def test_container_that_does_not_start_is_retried(story: Story) -> None:
    story.engine.run("web", start_to="exited")
    story.engine.run("db")
    handler = story.handler('containers = ["db", "web"]')
    handler.prepare()
    assert handler.fails("recover") == (
        "web was started and ended again with exit status 3"
    )
    assert story.engine.status("db") == "running"
    story.engine.change("web", refuse="driver failed")
    assert handler.fails("recover") == (
        f"web was not started: {story.program} start: "
        "Error response from daemon: driver failed"
    )
    story.engine.change("web", refuse="", start_to="running")
    assert handler.recover() == "started web"


# Pausing


def test_paused_container_is_unpaused_on_recovery(story: Story) -> None:
    story.engine.run("web")
    story.engine.run("frozen", "paused")
    story.engine.run("idle", "exited")
    handler = story.handler(
        'containers = [["web", "frozen", "idle"]]\naction = "pause"'
    )
    assert handler.prepare() == "paused web"
    assert handler.prepare() == "none of the containers was running"
    assert handler.recover() == "unpaused web"
    assert story.engine.status("frozen") == "paused"
    assert story.engine.orders() == ["pause web", "unpause web"]


def test_paused_container_that_ended_is_not_started(story: Story) -> None:
    story.engine.run("web")
    handler = story.handler('all = true\naction = "pause"')
    handler.prepare()
    story.engine.change("web", status="exited")
    assert handler.recover() == "nothing had to be undone"
    assert not handler.memo.exists()


def test_refused_pause_is_reported(on_docker: Story) -> None:
    on_docker.engine.run("web", refuse="cgroup freezer is not there")
    handler = on_docker.handler('all = true\naction = "pause"')
    assert handler.fails("prepare") == (
        "docker pause: Error response from daemon: cgroup freezer is not there"
    )
    on_docker.engine.change("web", status="paused")
    assert "cgroup freezer" in handler.fails("recover")
    on_docker.engine.change("web", refuse="")
    assert handler.recover() == "unpaused web"


# The engine


def test_unavailable_engine_is_retried(on_docker: Story) -> None:
    on_docker.engine.run("web")
    handler = on_docker.handler('containers = "web"')
    on_docker.engine.away(1, DOCKER_IS_AWAY)
    assert handler.prepare() == "stopped web"
    on_docker.engine.away(1_000, DOCKER_IS_AWAY)
    message = handler.fails("recover", FEW_CALLS)
    assert message == (f"timed out while asking docker: {DOCKER_IS_AWAY}")


def test_missing_engine_permission_is_reported_at_once(on_docker: Story) -> None:
    on_docker.engine.run("web")
    handler = on_docker.handler("all = true")
    on_docker.engine.away(
        2,
        "permission denied while trying to connect to the Docker daemon socket at "
        "unix:///var/run/docker.sock",
    )
    (problem,) = handler.check()
    assert problem.startswith("docker ps: permission denied while trying")
    assert problem.endswith(
        "(run the agent as root, or let its user access the engine)"
    )
    assert handler.fails("prepare") == problem


def test_refused_stop_is_reported(story: Story) -> None:
    story.engine.run("web", refuse="it is stuck")
    handler = story.handler('containers = "web"')
    assert handler.fails("prepare") == (
        f"{story.program} stop: Error response from daemon: it is stuck"
    )


def test_missing_container_prevents_all_stops(story: Story) -> None:
    story.engine.run("web")
    handler = story.handler('containers = ["web", "wbe"]')
    assert handler.fails("prepare") == "there is no container wbe"
    assert handler.check() == ["there is no container wbe"]
    assert story.engine.orders() == []


def test_configured_command_is_used(on_docker: Story) -> None:
    on_docker.engine.run("web")
    handler = on_docker.handler('all = true\ncommand = ["env", "A=1", "docker"]')
    assert handler.prepare() == "stopped web"
    assert on_docker.handler('all = true\ncommand = "nerdctl"').check() == [
        "there is no program nerdctl"
    ]
    strange = on_docker.handler('containers = "web"\ncommand = ["echo", "hello"]')
    assert strange.fails("prepare") == (
        "echo hello container inspect: hello container inspect web"
    )


# The settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "it selects no containers: set containers, labels or all"),
        ("all = false", "it selects no containers"),
        ('containers = "a"\nall = true', "cannot be combined with containers"),
        (
            'containers = "a"\nkeep = "b"',
            "cannot be combined with containers: use labels or all",
        ),
        (
            'all = true\naction = "pause"\ngrace = "1s"',
            'cannot be combined with action = "pause"',
        ),
        ('containers = "-a"', "is not a valid container name"),
        ('all = true\naction = "kill"', "must be one of stop, pause"),
    ],
)
def test_invalid_settings_are_rejected(
    tmp_path: Path, settings: str, said: str
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'[[handler]]\nname = "it"\nkind = "docker"\n{settings}\n')
    with pytest.raises(AgentSettingsError, match=said):
        load_settings(file=str(file), environ={}, flags={})


@pytest.mark.parametrize("said", ["[]", "", "[null]", "[{}]", '{"Id": "a"}'])
def test_inspect_answer_without_container_or_error_is_rejected(
    tmp_path: Path, said: str
) -> None:
    """A missing container is named, and makes the command fail."""
    story = Story(tmp_path, "docker")

    def command(words: list[str]) -> Echo:
        return Echo([said] if "inspect" in words else ["0" * 64])

    story.commands = InProcess({"docker": command})
    engine = Engine(story.commands, "docker", ["docker"])
    with pytest.raises(HandlerError, match=r"^docker container inspect: "):
        engine.inspect(["web"], context())
