#!/usr/bin/env bash
# A test in bash: the sample client prepares for a reboot, and approves it.
# The test kit is a process next to the test. It takes commands as JSON Lines.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

coproc KIT { forewarn testkit; }

# Send a command; an error ends the test.
order() {
    printf '%s\n' "$1" >&"${KIT[1]}"
    IFS= read -r answer <&"${KIT[0]}"
    if [[ $answer != '{"ok":true'* ]]; then
        echo "$1: $answer" >&2
        exit 1
    fi
}

# Print a text value of the last answer by its key.
value() {
    sed -E "s/.*\"$1\":\"([^\"]*)\".*/\1/" <<<"$answer"
}

order '{"do":"world","vms":1,"profile":"strict"}'
FOREWARN_ENDPOINT=$(value FOREWARN_ENDPOINT)
export FOREWARN_ENDPOINT

order '{"do":"reboot","vm":"web_0"}'
event=$(value EventId)

FOREWARN_POLLS=1 bash "$here/../clients/watch.sh" echo "draining" >/dev/null

order "{\"do\":\"assert_approved\",\"event\":\"$event\",\"by\":\"web_0\"}"
order '{"do":"assert_no_deviations"}'
echo "the client approved $event"
