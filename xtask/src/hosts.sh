# Two hosts on one machine: this network namespace and one more, joined by veth pairs, a subnet for
# each rail. Run inside a namespace of its own, which ends with it:
#
#   unshare --net sh hosts.sh RAILS COMMAND...      as root; else also --user --map-root-user
#
# COMMAND is what a rank runs, without its number. The first host is rank 0, at 10.77.0.1.
set -eu
rails=$1
shift

unshare --net sleep 900 &
other=$!
trap 'kill $other 2>/dev/null || true' EXIT
there() { nsenter --target "$other" --net "$@"; }
here=$(readlink /proc/self/ns/net)
while [ "$(readlink "/proc/$other/ns/net")" = "$here" ]; do sleep 0.02; done

ip link set lo up
there ip link set lo up
ours=
theirs=
rail=0
while [ "$rail" -lt "$rails" ]; do
    ip link add "a$rail" type veth peer name "b$rail" netns "$other"
    ip address add "10.77.$rail.1/24" dev "a$rail"
    there ip address add "10.77.$rail.2/24" dev "b$rail"
    ip link set "a$rail" up
    there ip link set "b$rail" up
    ours=$ours${ours:+,}a$rail
    theirs=$theirs${theirs:+,}b$rail
    rail=$((rail + 1))
done
# A link is up a moment after both its ends are.
rail=0
while [ "$rail" -lt "$rails" ]; do
    until ip link show dev "a$rail" | grep -q 'state UP'; do sleep 0.02; done
    until there ip link show dev "b$rail" | grep -q 'state UP'; do sleep 0.02; done
    rail=$((rail + 1))
done

there env "OFI_NCCL_NIC_GROUPS=$theirs" "$@" --rank 1 &
peer=$!
env "OFI_NCCL_NIC_GROUPS=$ours" "$@" --rank 0
wait $peer
