"""The main process of `forewarn serve` starts quickly: it loads no web framework, and
no planner of campaigns."""

import subprocess
import sys

SLOW = {"fastapi", "starlette", "uvicorn", "prometheus_client", "rich"}


PLANNER = {"forewarn.campaigns.planner", "forewarn.campaigns.options"}


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
