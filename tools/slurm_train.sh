#!/usr/bin/env bash
# Train under slurm, one task per GPU. GPUS_PER_NODE=0 asks for no GPU.
# STOP_SECONDS before the time limit slurm sends SIGUSR1. The run saves its state, and is
# queued again with --resume. Inside a batch job, whose time limit counts, give sbatch
# --requeue --signal=USR1@300 yourself: this script then requeues the job.
set -euo pipefail
if [[ $# -lt 3 ]]; then
    echo "usage: [GPUS=8 GPUS_PER_NODE=8 CPUS_PER_TASK=8 SRUN_ARGS= PORT=29500" \
        "STOP_SECONDS=300 PYTHON=python] $0 PARTITION JOB_NAME CONFIG [WORK_DIR] [arguments of mmbam train]" >&2
    exit 2
fi
if ! command -v srun >/dev/null; then
    echo "srun was not found: run this on a machine of a slurm cluster." >&2
    exit 2
fi
source "$(dirname "$0")/env.sh"
partition=$1 job=$2 config=$3
shift 3
work_dir=()
if [[ $# -gt 0 && $1 != -* ]]; then
    work_dir=(--work-dir "$1")
    shift
fi
tasks=${GPUS:-8}
per_node=${GPUS_PER_NODE:-8}
resources=()
if [[ $per_node -gt 0 ]]; then
    per_node=$((tasks < per_node ? tasks : per_node))
    resources=(--gres="gpu:$per_node" --ntasks-per-node="$per_node")
fi
export MASTER_PORT=${PORT:-29500}
train() {
    # SRUN_ARGS may hold several arguments, so it stays unquoted.
    srun --partition="$partition" --job-name="$job" --ntasks="$tasks" \
        --cpus-per-task="${CPUS_PER_TASK:-8}" --kill-on-bad-exit=1 \
        --signal="USR1@${STOP_SECONDS:-300}" \
        ${resources[@]+"${resources[@]}"} ${SRUN_ARGS:-} \
        "$PYTHON" -u -m mmbam train "$config" --launcher slurm \
        ${work_dir[@]+"${work_dir[@]}"} "$@"
}
timed_out=138 # 128 + SIGUSR1, after all is saved
resume=()
if [[ ${SLURM_RESTART_COUNT:-0} -gt 0 ]]; then resume=(--resume); fi
while true; do
    code=0
    train "$@" ${resume[@]+"${resume[@]}"} || code=$?
    if [[ $code != "$timed_out" ]]; then exit "$code"; fi
    if [[ -n ${SLURM_JOB_ID:-} ]]; then exec scontrol requeue "$SLURM_JOB_ID"; fi
    resume=(--resume)
done
