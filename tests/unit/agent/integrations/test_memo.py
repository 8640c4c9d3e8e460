"""The memo of a handler: its own actions, and those of no other kind."""

from pathlib import Path

import pytest

from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.integrations.base import Memo
from forewarn.agent.integrations.registry import HANDLERS
from forewarn.agent.settings_model import HandlerSettings
from tests.support.fake_haproxy import FakeHaproxy, serving
from tests.support.jobs import prepare, recover, worker_of


def memo(directory: Path, name: str, kind: str) -> Memo:
    return Memo(str(directory), HandlerSettings(name=name, kind=kind))


def test_memo_is_stored_and_deleted(tmp_path: Path) -> None:
    directory = tmp_path / "memos"
    assert memo(directory, "units", "systemd").read() == {}
    assert not directory.exists()
    memo(directory, "units", "systemd").keep({"stopped": [["web.service"]]})
    assert memo(directory, "units", "systemd").read() == {"stopped": [["web.service"]]}
    memo(directory, "units", "systemd").keep({})
    memo(directory, "units", "systemd").keep({})
    assert list(directory.iterdir()) == []


def test_each_name_and_kind_has_its_own_memo(tmp_path: Path) -> None:
    names = ("units", "units.docker", "units.systemd")
    for name in names:
        for kind in HANDLERS:
            memo(tmp_path, name, kind).keep({"mine": [name, kind]})
    for name in names:
        for kind in HANDLERS:
            assert memo(tmp_path, name, kind).read() == {"mine": [name, kind]}


def test_memo_of_another_kind_with_the_same_name_is_not_used(tmp_path: Path) -> None:
    proxy = FakeHaproxy("app/web_1")
    with serving(proxy, tmp_path / "admin.sock"):

        def rotation() -> Worker:
            servers = ("app/{vm}",)
            return worker_of(
                "haproxy", tmp_path, socket=(proxy.place,), servers=servers
            )

        other = memo(tmp_path / "agent.db.memos", "h", "systemd")
        other.keep({"stopped": [["web.service"]]})
        # The name belonged to a systemd handler, whose memo has no servers.
        assert recover(rotation()) == "this handler drained nothing"
        assert prepare(rotation()) == "app/web_1 drained; 0 sessions left"
        assert recover(rotation()) == "app/web_1 ready"
    assert other.read() == {"stopped": [["web.service"]]}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\xff", "[" * 100_000])
def test_damaged_memo_error_gives_a_fix(tmp_path: Path, text: str) -> None:
    damaged = memo(tmp_path, "h", "docker")
    damaged.keep({"stopped": [{"0123": "web"}]})
    [file] = tmp_path.iterdir()
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(HandlerError) as raised:
        damaged.read()
    message = raised.value.message
    assert message.startswith(f"cannot read the memo {file} (")
    assert message.endswith(
        "undo the handler's changes by hand if necessary, and remove the file"
    )
