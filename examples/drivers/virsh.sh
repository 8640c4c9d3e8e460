#!/bin/sh
# Carries out operations with virsh (libvirt, KVM). virsh.toml configures it.
#
#   virsh.sh ACTION VM HOST [TO_HOST]      virsh.sh freeze VM HOST SECONDS
#   virsh.sh observe VM HOST…
#
# In the fleet, VMs have the names of libvirt's domains, and hosts have their ssh names.
# The service's user needs an ssh key for the hosts and must be in the group libvirt on
# each host. Disks are on storage that all hosts share. Every step can be repeated.
#
# Exit status: 0 done; 1 failed, the VM runs; 3 failed, the VM does not run; 2 or
# another: failed, and it is unknown whether the VM runs.

action=$1 vm=$2 host=$3

SHUTDOWN_SECONDS=60 # time for the guest to shut down before it is switched off
FREEZE_SECONDS=5    # if the request has no duration

on() { # on HOST COMMAND…: run virsh on that host
    at=$1
    shift
    virsh --quiet --connect "qemu+ssh://$at/system" "$@"
}

state() { on "$1" domstate "$vm" 2>/dev/null; }

failed() { # failed HOST: exit with the status that reports whether the VM runs on HOST
    case $(state "$1") in
    running) exit 1 ;;
    "") exit 2 ;;
    *) exit 3 ;;
    esac
}

switch_off() { # switch_off HOST: shut down the VM, then switch it off
    on "$1" shutdown "$vm"
    left=$SHUTDOWN_SECONDS
    while [ "$(state "$1")" = running ] && [ "$left" -gt 0 ]; do
        sleep 1
        left=$((left - 1))
    done
    [ "$(state "$1")" = "shut off" ] || on "$1" destroy "$vm" || failed "$1"
}

case $action in
freeze)
    seconds=$4
    [ "$seconds" -gt 0 ] || seconds=$FREEZE_SECONDS
    trap 'on "$host" resume "$vm"; failed "$host"' TERM
    on "$host" suspend "$vm" || failed "$host"
    # Add your maintenance work here.
    sleep "$seconds"
    on "$host" resume "$vm" || failed "$host"
    ;;
live-migrate)
    to=$4
    [ "$(state "$to")" = running ] && exit 0
    trap 'on "$host" domjobabort "$vm"' TERM
    on "$host" migrate --live --persistent --undefinesource \
        "$vm" "qemu+ssh://$to/system" &
    # The shell handles SIGTERM during `wait`, but not while a foreground program runs.
    wait $! || { wait $!; [ "$(state "$to")" = running ] || failed "$host"; }
    ;;
reboot)
    [ "$(state "$host")" = "shut off" ] || switch_off "$host"
    on "$host" start "$vm" || failed "$host"
    ;;
# The halves of a freeze and of a reboot, with work on the host between them.
pause)
    [ "$(state "$host")" = paused ] || on "$host" suspend "$vm" || failed "$host"
    ;;
resume)
    [ "$(state "$host")" = running ] || on "$host" resume "$vm" || failed "$host"
    ;;
stop)
    [ "$(state "$host")" = "shut off" ] || switch_off "$host"
    ;;
start)
    [ "$(state "$host")" = running ] || on "$host" start "$vm" || failed "$host"
    ;;
redeploy)
    to=$4
    if [ "$(state "$to")" != running ]; then
        definition=$(mktemp) || exit 1
        trap 'rm -f "$definition"' EXIT
        if on "$host" dumpxml --inactive --security-info "$vm" >"$definition"; then
            [ "$(state "$host")" = "shut off" ] || switch_off "$host"
            on "$to" define "$definition" || exit 3
        fi
        on "$to" start "$vm" || failed "$to"
    fi
    [ -z "$(state "$host")" ] || on "$host" undefine --managed-save --nvram "$vm"
    ;;
delete)
    on "$host" list --all --name | grep -qxF -e "$vm" || exit 0
    [ "$(state "$host")" = "shut off" ] || on "$host" destroy "$vm" || failed "$host"
    on "$host" undefine --managed-save --nvram "$vm" || failed "$host"
    ;;
observe)
    shift 2
    unseen=
    for host; do
        names=$(on "$host" list --name) || { unseen=yes; continue; }
        if printf '%s\n' "$names" | grep -qxF -e "$vm"; then
            echo "$host"
            exit 0
        fi
    done
    [ -n "$unseen" ] && exit 2
    exit 3
    ;;
*)
    echo "virsh.sh cannot $action"
    exit 1
    ;;
esac
