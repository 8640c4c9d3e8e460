#!/bin/sh
# Carries out operations with Proxmox VE's qm. proxmox.toml configures it.
#
#   proxmox.sh ACTION VMID NODE [TO_NODE]  proxmox.sh freeze VMID NODE SECONDS
#   proxmox.sh observe VMID NODE…
#
# In the fleet, the name of a VM is its VMID (`name = "101"`), and `wire_name` is the name
# of the guest. Hosts have the names of the cluster's nodes. The service's user needs an
# ssh key for root on the nodes. Proxmox's HA must not manage the VMs, because it would
# start them on other nodes. Every step can be repeated.
#
# Exit status: as in virsh.sh.

action=$1 vm=$2 node=$3

SHUTDOWN_SECONDS=60
FREEZE_SECONDS=5

# A shell on the node parses the arguments of ssh.
case $vm in
"" | *[!0-9]*)
    echo "$vm is no VMID"
    exit 1
    ;;
esac

on() {
    at=$1
    shift
    ssh -o BatchMode=yes "root@$at" "$@"
}

state() { on "$1" qm status "$vm" 2>/dev/null | sed -n 's/^status: //p'; }

failed() {
    case $(state "$1") in
    running) exit 1 ;;
    "") exit 2 ;;
    *) exit 3 ;;
    esac
}

case $action in
freeze)
    seconds=$4
    [ "$seconds" -gt 0 ] || seconds=$FREEZE_SECONDS
    trap 'on "$node" qm resume "$vm"; failed "$node"' TERM
    on "$node" qm suspend "$vm" || failed "$node"
    sleep "$seconds"
    # qm reports a paused VM as running. If `resume` fails, the VM does not run.
    on "$node" qm resume "$vm" || exit 3
    ;;
live-migrate)
    to=$4
    [ "$(state "$to")" = running ] && exit 0
    on "$node" qm migrate "$vm" "$to" --online || {
        [ "$(state "$to")" = running ] || failed "$node"
    }
    ;;
reboot)
    on "$node" qm shutdown "$vm" --timeout "$SHUTDOWN_SECONDS" --forceStop 1 ||
        failed "$node"
    on "$node" qm start "$vm" || failed "$node"
    ;;
# The halves of a freeze and of a reboot, with work on the node between them.
pause)
    on "$node" qm suspend "$vm" || failed "$node"
    ;;
resume)
    on "$node" qm resume "$vm" || exit 3
    ;;
stop)
    [ "$(state "$node")" = stopped ] ||
        on "$node" qm shutdown "$vm" --timeout "$SHUTDOWN_SECONDS" --forceStop 1 ||
        failed "$node"
    ;;
start)
    [ "$(state "$node")" = running ] || on "$node" qm start "$vm" || failed "$node"
    ;;
redeploy)
    to=$4
    [ "$(state "$to")" = running ] && exit 0
    if [ -z "$(state "$to")" ]; then
        on "$node" qm shutdown "$vm" --timeout "$SHUTDOWN_SECONDS" --forceStop 1 ||
            failed "$node"
        on "$node" qm migrate "$vm" "$to" || failed "$node"
    fi
    on "$to" qm start "$vm" || failed "$to"
    ;;
delete)
    [ -n "$(state "$node")" ] || { on "$node" true && exit 0; exit 2; }
    on "$node" qm stop "$vm" || failed "$node"
    on "$node" qm destroy "$vm" --purge 1 || failed "$node"
    ;;
observe)
    shift 2
    unseen=
    for node; do
        case $(state "$node") in
        running)
            echo "$node"
            exit 0
            ;;
        "") on "$node" true || unseen=yes ;;
        esac
    done
    [ -n "$unseen" ] && exit 2
    exit 3
    ;;
*)
    echo "proxmox.sh cannot $action"
    exit 1
    ;;
esac
