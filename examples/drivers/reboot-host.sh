#!/bin/sh
# The host step `reboot-host`: restart a host over SSH, and prove later that it did.
#
# Linux gives each boot an ID. This program keeps the ID of the boot before the restart,
# and `host-answers.sh` succeeds only if the host answers with another one. A host that
# never went down therefore fails the maintenance, instead of passing as rebooted.
#
# If the service was killed meanwhile, the step can run again: a host that has another
# boot ID than the kept one is not restarted twice.
set -u

host=$1 visit=$2
state=${BOOT_IDS:-/var/lib/forewarn/boot-ids}
log_in="ssh -o BatchMode=yes -o ConnectTimeout=5 root@$host"

boot_id() { $log_in cat /proc/sys/kernel/random/boot_id 2>/dev/null; }

mkdir -p "$state" || exit 1
kept=$state/$host

if [ "$(sed -n 1p "$kept" 2>/dev/null)" != "$visit" ]; then
    before=$(boot_id)
    if [ -z "$before" ]; then
        echo "$host does not answer before its restart"
        exit 1
    fi
    # The file appears as a whole, so that a crash leaves no half of it.
    printf '%s\n%s\n' "$visit" "$before" > "$kept.new" && mv "$kept.new" "$kept" || exit 1
fi
before=$(sed -n 2p "$kept")

# The connection breaks when the host goes down, so the exit status says nothing.
[ "$(boot_id)" != "$before" ] || $log_in systemctl reboot 2>/dev/null

# End when the old system is down: `host-answers.sh` must not meet it.
while [ "$(boot_id)" = "$before" ]; do sleep 2; done
