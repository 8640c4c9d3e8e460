#!/bin/busybox sh
# The first program of a guest: it loads its network card, learns who it is, and then asks
# for its events and approves each one.
#
# It learns who it is from the kernel's arguments, or, if its memory was saved before it
# knew, from a line on the serial port: ADDRESS GATEWAY MAC MILLISECONDS SECONDS. It asks
# every so many milliseconds. The seconds are the time since 1970: saved memory is old.
/bin/busybox mkdir -p /proc /sys /dev /tmp /etc
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
stty -echo
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci \
    failover net_failover virtio_net; do
    insmod "/m/$module.ko"
done

now() { cut -d ' ' -f 1 /proc/uptime; }

identity=
for word in $(cat /proc/cmdline); do
    case $word in guest=*) identity=$(echo "${word#guest=}" | tr , ' ') ;; esac
done
echo "BOOT $(now)"
while [ -z "$identity" ]; do
    echo "READY"
    read -r identity
done
# shellcheck disable=SC2086 # they are words
set -- $identity
ip link set lo up
ip link set eth0 address "$3"
# The host's bridge needs a moment until it forwards.
echo 100 >/proc/sys/net/ipv4/neigh/eth0/retrans_time_ms
echo 20 >/proc/sys/net/ipv4/neigh/eth0/mcast_solicit
ip link set eth0 up
ip address add "$1/24" dev eth0
ip route add default via "$2"
[ -z "$5" ] || date -s "@$5" >/dev/null
echo "NETWORK $(now) $1"

while [ -x /agent/run ]; do
    /agent/run
    echo "AGENT has ended"
    sleep 1
done

host=169.254.169.254
path='/metadata/scheduledevents?api-version=2020-07-01'
last=
approved=
while :; do
    if found=$(timeout 20 wget -q -O - --header 'Metadata: true' "http://$host$path" 2>&1); then
        [ "$found" = "$last" ] || echo "DOCUMENT $(now) $found"
        last=$found
        for id in $(echo "$found" | tr '{' '\n' | grep '"EventStatus":"Scheduled"' |
            sed 's/.*"EventId":"\([^"]*\)".*/\1/'); do
            case $approved in *$id*) continue ;; esac
            body="{\"StartRequests\":[{\"EventId\":\"$id\"}]}"
            answer=$(printf '%s\r\n' "POST $path HTTP/1.1" "Host: $host" \
                'Metadata: true' 'Content-Type: application/json' "Content-Length: ${#body}" \
                'Connection: close' '' "$body" | timeout 20 nc "$host" 80 | head -n 1)
            case $answer in *' 200 '*) approved="$approved $id" ;; esac
            echo "APPROVED $(now) $id $answer"
        done
    elif [ "$found" != "$last" ]; then
        echo "ERROR $(now) $found"
        last=$found
    fi
    usleep "${4}000"
done
