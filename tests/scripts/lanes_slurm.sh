#!/bin/bash
# `evo sweep --workers` on a real Slurm of one controller and two nodes on this machine.
#
#     tests/scripts/lanes_slurm.sh [PATH OF EVO]
#
# Everything runs in a network namespace with a veth address, because Slurm fails where only loopback exists, and in a
# folder of its own. Sweeps on the host device, one lane on each node: an undisturbed one, one during which a node's
# daemon and its steps are killed, and one during which all steps are. Needs root, slurmctld, slurmd and slurm-client (Debian: apt-get install those three); says so and
# ends with 0 where something is missing.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
evo=$(realpath "${1:-$root/target/debug/evo}")

skip() { echo "skipped: $1"; exit 0; }
for program in slurmctld slurmd srun ip unshare; do
    command -v "$program" > /dev/null || skip "$program is missing"
done
[ "$(id -u)" = 0 ] || skip "it needs root"
[ -x "$evo" ] || skip "there is no $evo"

if [ "${EVO_IN_NAMESPACE:-}" != yes ]; then
    unshare --net --mount true 2> /dev/null || skip "namespaces cannot be made here"
    EVO_IN_NAMESPACE=yes exec unshare --net --mount --pid --fork --mount-proc "$0" "$evo"
fi

folder=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2> /dev/null; wait; rm -rf "$folder"' EXIT
ip link set lo up
ip link add evo0 type veth peer name evo1
ip addr add 10.99.0.1/24 dev evo0
ip link set evo0 up
ip link set evo1 up
host=$(hostname -s)
# The name must lead to the address, in this namespace only.
printf '127.0.0.1 localhost\n10.99.0.1 %s\n' "$host" > "$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts

mkdir -p "$folder"/{state,n0,n1}
cat > "$folder/slurm.conf" <<CONF
ClusterName=evo
SlurmctldHost=$host(10.99.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
CryptoType=crypto/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n/slurmd.pid
SlurmdSpoolDir=$folder/%n/spool
SlurmdLogFile=$folder/%n/slurmd.log
StateSaveLocation=$folder/state
ReturnToService=2
SlurmdTimeout=20
NodeName=n0 NodeHostname=$host NodeAddr=10.99.0.1 Port=17001 CPUs=2
NodeName=n1 NodeHostname=$host NodeAddr=10.99.0.1 Port=17002 CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
# Only the keys that this version of Slurm knows.
export SLURM_CONF="$folder/slurm.conf"
sed -i '/^CryptoType/d' "$SLURM_CONF"
slurmctld -D > "$folder/slurmctld.log" 2>&1 &
slurmd -D -N n0 > "$folder/n0.log" 2>&1 &
slurmd -D -N n1 > "$folder/n1.log" 2>&1 &
node1=$!
for _ in $(seq 100); do
    sinfo -h -o %T 2> /dev/null | grep -q idle && break
    sleep 0.2
done
if ! sinfo -h -o '%T' | grep -q idle; then
    echo "FAILED: Slurm does not come up"
    tail -n 20 "$folder"/*.log "$folder"/n?/slurmd.log
    exit 1
fi

cp "$root"/tests/data/lanes/* "$folder"
cd "$folder" || exit 1
# A whole node for each lane.
launcher="cmd:srun -N1 -n1 --exact -c2 --mem=0 -u $evo worker"
status=0

check() {
    local name=$1 expected=$2 count
    count=$(grep -c '"kind":"evaluation"' "$name/lanes/journal.jsonl")
    if [ "$count" = "$expected" ]; then
        echo "passed: $name: $count evaluations"
    else
        echo "FAILED: $name: $count evaluations instead of $expected"
        tail -n 5 "$name.log"
        status=1
    fi
}

# An allocation that outlives one of its nodes.
sweep() {
    salloc -N2 -n4 --no-kill -Q "$evo" sweep scale.toml --study lanes --device host --workers "$launcher" --lanes 2 \
        --seed 1 --finalists 0 --jobs 1 --no-prior --out "$1" > "$1.log" 2>&1
}

resume() {
    "$evo" sweep scale.toml --study lanes --device host --workers host:1 --seed 1 --finalists 0 --jobs 1 --no-prior \
        --resume --out "$1" > "$1.log" 2>&1
}

# Waits until a sweep has so many evaluations.
wait_for() {
    for _ in $(seq 400); do
        [ "$(grep -c '"kind":"evaluation"' "$1/lanes/journal.jsonl" 2> /dev/null)" -ge "$2" ] 2> /dev/null && break
        sleep 0.1
    done
}

# The daemons of a node's steps, which keep its log open; of all nodes without an argument.
steps() {
    for step in $(pgrep -x slurmstepd); do
        find "/proc/$step/fd" -lname "$folder/${1:-n?}/*" 2> /dev/null | grep -q . && echo "$step"
    done
}

echo "a question through srun:"
salloc -N1 -n1 -Q python3 "$root"/benches/lanes_latency.py srun -n1 --exact -u "$evo" worker 2>&1 | tail -n 1

began=$SECONDS
sweep undisturbed || { echo "FAILED: exit code $?"; status=1; }
check undisturbed 10
echo "$((SECONDS - began)) s"

began=$SECONDS
sweep node_lost &
sweeping=$!
wait_for node_lost 2
# A node that is lost: its daemon and its steps at once.
found=$(steps n1)
[ -n "$found" ] || { echo "FAILED: no step on n1"; status=1; }
kill -9 "$node1" $found
wait "$sweeping" || { echo "FAILED: exit code $?"; status=1; }
check node_lost 10
echo "$((SECONDS - began)) s"
grep -h 'lane' node_lost.log | head -5

slurmd -D -N n1 > "$folder/n1.log" 2>&1 &
for _ in $(seq 100); do
    [ "$(sinfo -h -n n1 -o %T 2> /dev/null)" = idle ] && break
    sleep 0.3
done
began=$SECONDS
sweep steps_killed &
sweeping=$!
wait_for steps_killed 2
kill -9 $(steps)
wait "$sweeping"
code=$?
echo "exit code $code"
if [ "$code" = 3 ]; then
    grep -h 'lanes are lost' steps_killed.log
    resume steps_killed || { echo "FAILED: exit code $?"; status=1; }
elif [ "$code" != 0 ]; then
    status=1
fi
check steps_killed 10
echo "$((SECONDS - began)) s"
[ -z "$(pgrep -f "$evo worker" || true)" ] && echo "passed: no worker is left" || { echo "FAILED: workers are left"; status=1; }
exit $status
