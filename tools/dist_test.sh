#!/usr/bin/env bash
# Test a checkpoint on several GPUs, or on as many CPU processes where there is no GPU.
set -euo pipefail
if [[ $# -lt 3 ]]; then
    echo "usage: [NNODES=1 NODE_RANK=0 MASTER_ADDR=127.0.0.1 PORT=29500 PYTHON=python]" \
        "$0 CONFIG CHECKPOINT GPUS [arguments of mmbam test]" >&2
    exit 2
fi
source "$(dirname "$0")/env.sh"
exec "$PYTHON" -m mmbam test "$1" "$2" --devices "$3" "${@:4}"
