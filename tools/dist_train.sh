#!/usr/bin/env bash
# Train on several GPUs, or on as many CPU processes where there is no GPU. RESTARTS=3
# starts all processes again, from the newest checkpoint, up to three times if one dies.
set -euo pipefail
if [[ $# -lt 2 ]]; then
    echo "usage: [NNODES=1 NODE_RANK=0 MASTER_ADDR=127.0.0.1 PORT=29500 RESTARTS=0" \
        "PYTHON=python] $0 CONFIG GPUS [arguments of mmbam train]" >&2
    exit 2
fi
source "$(dirname "$0")/env.sh"
exec "$PYTHON" -m mmbam train "$1" --devices "$2" "${@:3}"
