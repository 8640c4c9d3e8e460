#!/bin/sh
# The host step `host-answers`: succeed when a host answers with another boot ID than the
# one that `reboot-host.sh` kept. Run as a step `verify`, it proves the restart once more.
set -u

host=$1 visit=$2
kept=${BOOT_IDS:-/var/lib/forewarn/boot-ids}/$host

if [ "$(sed -n 1p "$kept" 2>/dev/null)" != "$visit" ]; then
    echo "reboot-host.sh has kept no boot ID of $host for $visit"
    exit 1
fi
now=$(ssh -o BatchMode=yes -o ConnectTimeout=5 "root@$host" \
    cat /proc/sys/kernel/random/boot_id 2>/dev/null)
if [ -z "$now" ]; then
    echo "$host does not answer"
    exit 1
fi
if [ "$now" = "$(sed -n 2p "$kept")" ]; then
    echo "$host has not restarted: its boot ID is still $now"
    exit 1
fi
