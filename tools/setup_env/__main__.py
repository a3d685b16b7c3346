"""Make the environment that the Makefile's targets run in, or mend it.

``python tools/setup_env core`` installs what pre-training needs, ``dense`` adds mmdet,
mmsegmentation, mmcv's compiled operators and the test tools. Both look at what is
there, whatever an earlier run left behind, and change only what does not fit.

``--stack classic`` takes OpenMMLab's own last releases, ``modern`` the maintained forks
of them for newer torch. Each has an environment of its own; one of the other stack is
refused, not changed into this one.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from environment import (
    FILES,
    HERE,
    PYTHON,
    REPOSITORY,
    STACKS,
    Environment,
    SetupError,
    existing_parent,
    requirement_files,
    say,
)

FORK = 'onedl-mmcv'
MMCV = ('mmcv', 'mmcv-lite', FORK)  # all write into the folder mmcv
MISSING = 'is not installed'  # as check.py says it


def read_lines(*files: Path) -> dict[str, str]:
    """The lines of requirement files by package."""
    lines = {}
    for file in files:
        for line in file.read_text('utf-8').splitlines():
            if line and not line.startswith('#'):
                lines[line.split('==')[0]] = line
    return lines


def require_machine(part: str) -> None:
    """Refuse early, in one sentence, what cannot work."""
    wanted = '.'.join(map(str, PYTHON))
    if sys.version_info[:2] != PYTHON:
        found = '.'.join(map(str, sys.version_info[:3]))
        raise SetupError(
            f'Python {wanted} is needed, {sys.executable} is {found}: '
            f'pass one with `make PYTHON=/path/to/python{wanted} ...`.'
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise SetupError(
            f'{sys.executable} comes without the venv module: install it '
            f'(on Debian and Ubuntu the package python{wanted}-venv).'
        ) from None
    if part != 'dense':
        return
    compiler = os.environ.get('CXX', 'c++')
    if shutil.which(compiler) is None:
        raise SetupError(
            f'The C++ compiler {compiler!r} is needed to compile mmcv and was not '
            'found: install gcc and g++ (on Debian and Ubuntu build-essential).'
        )
    if not Path(sysconfig.get_path('include'), 'Python.h').exists():
        raise SetupError(
            f'{sys.executable} comes without Python.h, which compiling mmcv needs: '
            f'install it (on Debian and Ubuntu the package python{wanted}-dev).'
        )


def install(
    env: Environment, part: str, problems: dict[str, str], rebuild: bool
) -> bool:
    """Change what does not fit.

    Args:
        env (Environment): Where to.
        part (str): ``core`` or ``dense``.
        problems (dict): What :meth:`Environment.problems` found.
        rebuild (bool): Compile mmcv anew even if a wheel is kept.

    Returns:
        bool: Whether mmcv was installed from a wheel made here.
    """
    env.remove_remains()
    files = requirement_files(env.stack, part)
    tools, lines = read_lines(files[0]), read_lines(*files)
    if set(tools) & set(problems):
        say(f'installing {", ".join(tools.values())}')
        options = ('--no-deps', '--force-reinstall')
        env.pip('install', *options, *tools.values(), purpose='install the build tools')
    # pip takes a broken package for the package itself, so it goes first.
    unfit = [n for n, what in problems.items() if what != MISSING and n not in tools]
    env.remove([name for name in unfit if name not in MMCV])
    todo = [lines[n] for n in lines if n in problems and n not in (*MMCV, *tools)]
    if todo:
        fresh = len(todo) > 50
        time_needed = '3 to 4 GB to fetch, 3 to 10 minutes' if fresh else 'a moment'
        say(f'installing {len(todo)} of the {part} packages: {time_needed}')
        env.pip('install', '--no-deps', *todo, purpose=f'install the {part} packages')

    # The old mmcv stays until there is something to put in its place.
    unfit_mmcv = [name for name in unfit if name in MMCV]
    name = FORK if FORK in lines else 'mmcv'
    lite = part == 'core'
    made = name in problems and (name == FORK or not lite)
    if made:
        version = lines[name].split('==')[1]
        wheel = get_mmcv_wheel(env, name, version, lite, rebuild)
        env.remove(unfit_mmcv)
        say(f'installing {lines[name]} with{"out" if lite else ""} its operators')
        env.pip('install', '--no-deps', wheel, purpose=f'install {name}')
    elif set(MMCV) & set(problems):
        env.remove(unfit_mmcv)
        say(f'installing {lines["mmcv-lite"]}')
        env.pip('install', '--no-deps', lines['mmcv-lite'], purpose='install mmcv-lite')
    if 'mmbam' in problems:
        say(f'installing mmbam from {REPOSITORY}')
        options = ('--no-deps', '--no-build-isolation', '-e')
        env.pip('install', *options, REPOSITORY, purpose='install mmbam')
    return made


def get_mmcv_wheel(
    env: Environment, name: str, version: str, lite: bool, rebuild: bool
) -> str:
    """The wheel with or without operators, from the user's cache or made now."""
    cache = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'mmbam'
    if not os.access(existing_parent(cache), os.W_OK):  # build machines without a home
        cache = env.folder / 'cache'
    options = ['--lite'] * lite + ['--rebuild'] * rebuild
    command = [HERE / 'mmcv_wheel.py', name, version, cache, *options]
    result = env.run(*command, stdout=subprocess.PIPE)
    if result.returncode:
        raise SetupError(f'The wheel of {name} could not be made (see above).')
    return result.stdout.splitlines()[-1]


def fingerprint(stack: str, part: str) -> str:
    """Changes with anything that decides what the environment should be."""
    paths = [*requirement_files(stack, part), HERE / 'check.py']
    content = b''.join(path.read_bytes() for path in paths)
    return hashlib.sha256(sys.version.encode() + content).hexdigest()


def set_up(env: Environment, part: str) -> None:
    """Verify the environment; mend and verify again until it fits."""
    start = time.monotonic()
    env.ensure()
    record = env.read_record()
    wanted = fingerprint(env.stack, part)
    problems = env.problems(part, thorough=record.get(part) != wanted)
    before: dict[str, str] = {}
    wheels = 0  # installed so far: the kept one, then one compiled anew
    for _ in range(5):
        broken = set(problems) & {'mmcv', FORK}
        hopeless = wheels == 2 if broken else problems == before
        if not problems or hopeless:
            break
        shown = [f'{name} {what}' for name, what in problems.items()]
        more = f' and {len(shown) - 3} more' if len(shown) > 3 else ''
        say(f'to do: {"; ".join(shown[:3])}{more}')
        wheels += install(env, part, problems, rebuild=wheels == 1)
        before, problems = problems, env.problems(part, thorough=True)
    if problems:
        lines = '\n'.join(f'  {name} {what}' for name, what in problems.items())
        raise SetupError(
            f'{env.folder} still does not fit after mending; remove it and try again:\n'
            + lines
        )
    env.write_record(**{**record, part: wanted})
    seconds = time.monotonic() - start
    say(f'{env.folder} is ready for {part}, {env.stack} stack ({seconds:.0f} s)')


@contextmanager
def alone(folder: Path):
    """Let one set-up at a time work on a folder."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir(), f'mmbam-setup-{os.getuid()}-{name}.lock')
    with open(path, 'w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f'another set-up is at work on {folder}, waiting for it')
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('part', choices=sorted(FILES))
    parser.add_argument('--stack', choices=list(STACKS), default='classic')
    parser.add_argument('--venv', type=Path, help=f'default by stack: {STACKS}')
    args = parser.parse_args()
    folder = (args.venv or REPOSITORY / STACKS[args.stack]).absolute()
    try:
        require_machine(args.part)
        with alone(folder):
            set_up(Environment(folder, args.stack), args.part)
    except SetupError as error:
        print(f'[setup] {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('\n[setup] stopped; the next run goes on from here', file=sys.stderr)
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
