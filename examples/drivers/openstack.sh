#!/bin/sh
# Carries out operations with the openstack command. openstack.toml configures it.
#
#   openstack.sh ACTION SERVER HOST [TO_HOST]  openstack.sh freeze SERVER HOST SECONDS
#   openstack.sh observe SERVER
#
# Without TO_HOST, Nova's scheduler chooses the host: see openstack-scheduler.toml.
#
# In the fleet, the name of a VM is the ID of its server, and hosts have their names in
# Nova. /etc/openstack/clouds.yaml has the cloud `forewarn` with the credentials of an
# administrator. The password is only there, not in forewarn's settings or in an
# environment variable. Every step can be repeated.
#
# Exit status: as in virsh.sh.

action=$1 vm=$2 from=$3

FREEZE_SECONDS=5

# --host needs API version 2.30 for a live migration, and 2.56 for other migrations.
nova() { openstack --os-cloud forewarn --os-compute-api-version 2.56 server "$@"; }

show() { nova show -f value -c "$1" "$vm" 2>/dev/null; }
status() { show status; }
place() { show OS-EXT-SRV-ATTR:host; }

is_there() { # is_there TO_HOST: the VM has arrived, or has left if none is given
    at=$(place)
    if [ -n "$1" ]; then [ "$at" = "$1" ]; else [ -n "$at" ] && [ "$at" != "$from" ]; fi
}

failed() {
    case $(status) in
    ACTIVE) exit 1 ;;
    "") exit 2 ;;
    *) exit 3 ;;
    esac
}

wait_for() { # wait_for STATUS: poll the status, for commands without --wait
    left=60
    while [ "$(status)" != "$1" ]; do
        [ "$left" -gt 0 ] || failed
        sleep 1
        left=$((left - 1))
    done
}

case $action in
freeze)
    seconds=$4
    [ "$seconds" -gt 0 ] || seconds=$FREEZE_SECONDS
    trap 'nova unpause "$vm"; failed' TERM
    [ "$(status)" = PAUSED ] || nova pause "$vm" || failed
    wait_for PAUSED
    sleep "$seconds"
    nova unpause "$vm" || failed
    wait_for ACTIVE
    ;;
live-migrate)
    to=$4
    is_there "$to" && [ "$(status)" = ACTIVE ] && exit 0
    nova migrate --live-migration ${to:+--host "$to"} --wait "$vm" || failed
    is_there "$to" || failed
    ;;
reboot)
    nova reboot --hard --wait "$vm" || failed
    ;;
# The halves of a freeze and of a reboot, with work on the host between them.
pause)
    [ "$(status)" = PAUSED ] || nova pause "$vm" || failed
    wait_for PAUSED
    ;;
resume)
    [ "$(status)" = ACTIVE ] || nova unpause "$vm" || failed
    wait_for ACTIVE
    ;;
stop)
    [ "$(status)" = SHUTOFF ] || nova stop "$vm" || failed
    wait_for SHUTOFF
    ;;
start)
    [ "$(status)" = ACTIVE ] || nova start "$vm" || failed
    wait_for ACTIVE
    ;;
redeploy)
    to=$4
    is_there "$to" || nova migrate ${to:+--host "$to"} --wait "$vm" || failed
    [ "$(status)" != VERIFY_RESIZE ] || nova migration confirm "$vm" || failed
    wait_for ACTIVE
    is_there "$to" || failed
    ;;
reimage)
    nova rebuild --wait "$vm" || failed
    ;;
delete)
    nova list --all-projects -f value -c ID >/dev/null || exit 2
    [ -n "$(status)" ] || exit 0
    nova delete --wait "$vm" || failed
    ;;
observe)
    case $(status) in
    ACTIVE) place ;;
    "") exit 2 ;;
    *) exit 3 ;;
    esac
    ;;
*)
    echo "openstack.sh cannot $action"
    exit 1
    ;;
esac
