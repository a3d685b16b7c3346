#!/usr/bin/env bash
# Test a checkpoint on one GPU, or on the CPU.
set -euo pipefail
if [[ $# -lt 2 ]]; then
    echo "usage: [PYTHON=python] $0 CONFIG CHECKPOINT [arguments of mmbam test]" >&2
    exit 2
fi
source "$(dirname "$0")/env.sh"
exec "$PYTHON" -m mmbam test "$@"
