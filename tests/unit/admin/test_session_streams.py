"""Streams of the console, which end with their session."""

from dataclasses import replace

import pytest

from forewarn.admin import limits
from forewarn.admin.identity import Identity
from forewarn.admin.viewer_rights import Credential
from forewarn.control import sessions, tokens
from forewarn.control.requests import failures
from forewarn.control.sessions import Pass, PassKind
from forewarn.control.transactions.work import Who
from forewarn.instants import HOUR
from forewarn.protocol.actors import operator
from tests.unit.admin.browsers import Service
from tests.unit.admin.streams import Streams, run


@pytest.mark.parametrize("end", ["expires", "logs out", "is revoked"])
def test_stream_ends_within_a_second_of_its_session(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RECHECK_SECONDS", 0.02)
    service = Service()
    gateway, made = service.gateway, service.token("")
    session = Pass(
        kind=PassKind.SESSION,
        pass_id="0" * 32,
        token_id=made["id"],
        ends_at=gateway.now() + HOUR,
    )
    other = Credential(token_id="", session=replace(session, pass_id="1" * 32))

    async def story(streams: Streams) -> None:
        ending = streams.watch(right=Credential(token_id=made["id"], session=session))
        going = streams.watch(right=other)
        await ending.until("ready")
        await going.until("ready")
        if end == "expires":
            service.move(HOUR)
        elif end == "logs out":
            gateway.plane.order(
                Who(actor=operator("alice")),
                lambda work: sessions.end(
                    work, session.pass_id, ends_at=session.ends_at
                ),
                now=gateway.now(),
            )
        else:
            gateway.plane.order(
                Who(actor=operator("alice")),
                lambda work: tokens.revoke(work, made["id"]),
                now=gateway.now(),
            )
        name, said = await ending.next()
        assert (name, said["kind"]) == ("error", "unauthorized")
        assert said["error"] == "the session is over"
        if end != "expires":
            gateway.plane.order(
                Who(actor=operator("alice")),
                lambda work: failures.fail_vm(work, "web_0"),
                now=gateway.now(),
            )
            assert (await going.next())[0] == "operations"

    run(gateway, story)


@pytest.mark.parametrize("end", ["logs out at this replica", "leaves the group"])
def test_stream_ends_with_what_only_this_machine_knows(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RECHECK_SECONDS", 0.02)
    operators = {"unix:dora", "unix:eve"}
    service = Service(is_local_operator=operators.__contains__)
    identity: Identity = service.app.state.identity
    session, other = (
        Pass(
            kind=PassKind.SESSION,
            pass_id=digit * 32,
            name=name,
            ends_at=service.gateway.now() + HOUR,
        )
        for digit, name in (("0", "unix:dora"), ("1", "unix:eve"))
    )

    async def story(streams: Streams) -> None:
        ending, going = (
            streams.watch(right=Credential.of(token.name, "", token))
            for token in (session, other)
        )
        await ending.until("ready")
        await going.until("ready")
        if end == "leaves the group":
            operators.remove("unix:dora")
        else:
            identity.forget(session)
        name, said = await ending.next()
        assert (name, said["error"]) == ("error", "the session is over")
        service.gateway.plane.order(
            Who(actor=operator("alice")),
            lambda work: failures.fail_vm(work, "web_0"),
            now=service.gateway.now(),
        )
        assert (await going.next())[0] == "operations"

    run(service.gateway, story, is_good_here=identity.is_good_here)
