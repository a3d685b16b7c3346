# Sourced by the scripts beside it: where they are and which Python runs them, that of the
# environment of STACK, as `make` makes it.
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$tools")
if [[ -z ${PYTHON:-} ]]; then
    case ${STACK:-classic} in
        classic) venv=$root/.venv ;;
        modern) venv=$root/.venv-modern ;;
        *)
            echo "STACK must be classic or modern, not '$STACK'." >&2
            exit 2
            ;;
    esac
    PYTHON=python
    if [[ -x $venv/bin/python ]]; then PYTHON=$venv/bin/python; fi
    if [[ -n ${STACK:-} && $PYTHON == python ]]; then
        echo "There is no $venv: run 'make core STACK=$STACK' first." >&2
        exit 2
    fi
fi
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
