# Sourced by the scripts beside it: where they are and which Python runs them.
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$tools")
if [[ -z ${PYTHON:-} ]]; then
    PYTHON=python
    if [[ -x $root/.venv/bin/python ]]; then PYTHON=$root/.venv/bin/python; fi
fi
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
