"""Requests whose response was lost by `kill -9`, repeated with their key."""

import http.client
import json
import threading
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from tests.support.processes import Serving

pytestmark = [pytest.mark.system, pytest.mark.slow]

KILLS = 8

DYING_SECONDS = 0.02
"""Seconds from the request to the kill, which is before or after the commit."""

FLEET = (
    '[[tenant]]\nname = "shop"\n[[host]]\nname = "h1"\n[[host]]\nname = "h2"\n'
    + "".join(
        f'[[vm]]\nname = "web_{number}"\nhost = "h1"\ntenant = "shop"\n'
        for number in range(KILLS)
    )
)


def order(service: Serving, vm: str, key: str) -> tuple[int, str]:
    """Request a restart; return the status and the request."""
    address = urlsplit(service.urls["operators"]).netloc
    connection = http.client.HTTPConnection(address, timeout=60)
    body = json.dumps({"vms": [vm], "not_before": "+1h"})
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    try:
        connection.request("POST", "/v1/reboot", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("request", "")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def test_request_repeated_after_a_kill_is_carried_out_once(tmp_path: Path) -> None:
    rng = Random(7)
    services: list[Serving] = []
    first: dict[str, tuple[int, str]] = {}
    try:
        for number in range(KILLS):
            service = Serving(tmp_path, FLEET).wait_ready()
            services.append(service)
            vm = f"web_{number}"

            def give(service: Serving = service, vm: str = vm) -> None:
                first[vm] = order(service, vm, f"key-of-{vm}")

            giving = threading.Thread(target=give)
            giving.start()
            threading.Event().wait(rng.uniform(0, DYING_SECONDS))
            service.kill()
            giving.join()
        service = Serving(tmp_path, FLEET).wait_ready()
        services.append(service)
        for vm, (_, before) in first.items():
            status, request = order(service, vm, f"key-of-{vm}")
            assert status == 201
            assert before in {"", request}
        operations = service.admin("/v1/operations")["operations"]
        assert sorted(operation["target"] for operation in operations) == sorted(first)
    finally:
        for each_service in services:
            each_service.process.kill()
            each_service.process.wait()
