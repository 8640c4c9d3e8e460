"""The first requests of VMs, which a relay in this process sends to a service together."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarn.admin.limits import RELAY_ENABLINGS_MAX
from forewarn.relay import messages
from tests.unit.relay.test_knowledge import known, view
from tests.unit.relay.test_process import HERE, ask, change, knowing, run


def test_the_first_request_of_a_view_waits_for_its_document(tmp_path: Path) -> None:
    disabled = replace(HERE, views={"web": replace(view("web", 0), enabled=False)})

    async def story() -> None:
        async with knowing(tmp_path, messages.text_of(disabled)) as (service, relay):

            def answer(_path: str, _body: Any) -> Any:
                service.tell(change(1).replace('"epoch": 1', '"epoch": 2'))
                return {"enabled": True, "position": "3.8.abc"}

            service.answer = lambda _path, _body: {"enabled": False}
            assert (await ask(relay))[0] == 503
            service.answer = answer
            assert (await ask(relay))[1]["DocumentIncarnation"] == 1

    run(story())


FIRST = {
    f"vm-{number}": replace(view(f"vm-{number}", 0), enabled=False)
    for number in range(100)
}
"""The views of a host that boots: none of its VMs has asked yet."""


def test_first_requests_that_come_together_are_few(tmp_path: Path) -> None:
    booted = replace(
        HERE,
        views=FIRST,
        guests={
            name: known(name, name, f"192.0.2.{number}")
            for number, name in enumerate(FIRST)
        },
    )

    async def story() -> None:
        async with knowing(tmp_path, messages.text_of(booted)) as (service, relay):

            def answer(_path: str, body: Any) -> Any:
                names = body.get("vms") or [body["vm"]]
                here = [name for name in names if name != "vm-7"]
                return {"enabled": here == names, "vms": here, "position": "3.7.abc"}

            service.answer = answer
            results = await asyncio.gather(
                *map(relay.gateway.enable, FIRST), return_exceptions=True
            )
            failed = [
                name for name, result in zip(FIRST, results, strict=True) if result
            ]
            assert failed == ["vm-7"]
            sent = [body.get("vms") or [body["vm"]] for *_, body in service.asked[1:]]
            assert [name for names in sent for name in names] == [*FIRST]
            assert len(sent) == 2
            assert max(map(len, sent)) == RELAY_ENABLINGS_MAX

    run(story())


def test_service_of_an_earlier_version_enables_one_vm_at_a_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):

            def answer(_path: str, body: Any) -> Any:
                service.status = 422 if "vms" in body else 200
                return {"enabled": body.get("vm") != "vm-1", "position": "3.7.abc"}

            service.answer = answer
            vms = ("vm-0", "vm-1", "vm-2")
            results = await asyncio.gather(
                *map(relay.gateway.enable, vms), return_exceptions=True
            )
            assert [bool(result) for result in results] == [False, True, False]
            assert [body.get("vm") for *_, body in service.asked[1:]] == [None, *vms]
            # The service takes none now.
            service.answer, service.status = (lambda _path, _body: {}), 503
            results = await asyncio.gather(
                *map(relay.gateway.enable, vms), return_exceptions=True
            )
            assert [bool(result) for result in results] == [True, True, True]

    run(story())
