#!/usr/bin/env bash
# Run a script of this folder in several processes: torchrun.sh GPUS SCRIPT [arguments]
set -euo pipefail
source "$(dirname "$0")/env.sh"
gpus=$1
if [[ ! $gpus =~ ^[1-9][0-9]*$ ]]; then
    echo "GPUS must be a number of processes, got '$gpus'." >&2
    exit 2
fi
restarts=${RESTARTS:-0}
if [[ ! $restarts =~ ^[0-9]+$ ]]; then
    echo "RESTARTS must be a number of restarts, got '$restarts'." >&2
    exit 2
fi
nodes=${NNODES:-1}
if [[ $nodes == 1 && -z ${PORT:-} ]]; then # two runs on a machine must not collide
    PORT=$("$PYTHON" -c 'from socket import socket
with socket() as s:
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1])')
fi
if [[ -z ${OMP_NUM_THREADS:-} ]] && ! command -v nvidia-smi >/dev/null; then
    # With GPUs torchrun's one thread per process will do; here they share the cores.
    cores=$(getconf _NPROCESSORS_ONLN)
    export OMP_NUM_THREADS=$((cores > gpus ? cores / gpus : 1))
fi
exec "$PYTHON" "$tools/torchrun.py" \
    --nnodes="$nodes" --node_rank="${NODE_RANK:-0}" --nproc_per_node="$gpus" \
    --max_restarts="$restarts" \
    --master_addr="${MASTER_ADDR:-127.0.0.1}" --master_port="${PORT:-29500}" \
    "$tools/$2" "${@:3}"
