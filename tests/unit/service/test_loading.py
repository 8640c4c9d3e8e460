"""The main process of `forewarn serve` starts quickly: it loads no web framework, and
no planner of campaigns."""

import socket
import subprocess
import sys

SLOW = {"fastapi", "starlette", "uvicorn", "prometheus_client", "rich"}


PLANNER = {"forewarn.campaigns.planner", "forewarn.campaigns.file"}
"""A service needs these for no decision. The table of the keys of campaign files is small."""


def test_main_process_loads_no_web_framework_and_no_planner() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-c"),
            "import forewarn.service.assembly, sys; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "forewarn.service.api_process" in loaded
    assert not loaded & SLOW
    assert not loaded & PLANNER


def test_api_process_ends_quietly_if_the_service_ends_before_its_setup() -> None:
    """A service that refuses its settings or file has said why."""
    service, end = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener, end:
        numbers = [listener.fileno(), end.fileno()]
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-c"),
                "from forewarn.service.api_start import main; main()",
                *map(str, numbers),
            ],
            pass_fds=numbers,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    service.close()
    assert process.stdin is not None
    assert process.stderr is not None
    with process.stdin, process.stderr:
        assert process.wait() == 0
        assert process.stderr.read() == ""
