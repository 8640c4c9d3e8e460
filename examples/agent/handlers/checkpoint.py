"""A handler that saves the state of a job before an event, and deletes it afterwards."""

import json
import os
from pathlib import Path
from typing import Any

STATE = Path(os.environ.get("CHECKPOINT", "/var/lib/job/checkpoint.json"))


def save(event: dict[str, Any]) -> None:
    """Save the state; any exception withholds the approval."""
    STATE.parent.mkdir(parents=True, exist_ok=True)
    written = STATE.with_suffix(".new")
    with written.open("w") as file:
        json.dump({"for": event["EventId"], "step": 42}, file)
        file.flush()
        # The VM can disappear just after the approval.
        os.fsync(file.fileno())
    written.rename(STATE)
    print("saved", STATE)


def forget(event: dict[str, Any]) -> None:
    """Delete the state; the event is empty if the agent's journal was lost."""
    STATE.unlink(missing_ok=True)
    print("resumed after", event.get("EventType", "an unknown event"))
