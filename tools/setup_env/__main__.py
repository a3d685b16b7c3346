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
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
REQUIREMENTS = REPOSITORY / 'requirements'
FILES = {
    'core': ('build', 'core'),
    'dense': ('build', 'core', 'dense', 'test'),
}
# Where each stack is set up unless told otherwise, as in the Makefile and env.sh.
STACKS = {'classic': '.venv', 'modern': '.venv-modern'}
# The distribution that shows of which stack an environment is.
SIGNS = {'mmengine': 'classic', 'onedl_mmengine': 'modern'}
PYTHON = (3, 11)  # torch 2.1 has no wheels for newer ones, the lock none for older
FORK = 'onedl-mmcv'
MMCV = ('mmcv', 'mmcv-lite', FORK)  # all write into the folder mmcv
MISSING = 'is not installed'  # as check.py says it
# What a fresh environment takes; torch brings its CUDA libraries.
GIGABYTES = {'classic': 7, 'modern': 9}


class SetupError(RuntimeError):
    """The environment cannot be made; the message is for the user."""


def say(message: str) -> None:
    print(f'[setup] {message}', flush=True)


def requirement_files(stack: str, part: str) -> list[Path]:
    """The files that say what an environment is made of."""
    return [REQUIREMENTS / stack / f'{name}.txt' for name in FILES[part]]


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


class Environment:
    """A virtual environment and what the set-up knows about it.

    Args:
        folder (Path): Where it is or will be.
        stack (str): ``classic`` or ``modern``.
    """

    def __init__(self, folder: Path, stack: str) -> None:
        self.folder = folder
        self.stack = stack
        self.python = folder / 'bin' / 'python'
        # What was verified; also says that the folder was made here and may be remade.
        self.record = folder / 'mmbam-setup.json'

    def run(self, *args, **kwargs) -> subprocess.CompletedProcess:
        """Run the environment's Python, free of the caller's paths."""
        env = {k: v for k, v in os.environ.items() if not k.startswith('PYTHON')}
        env.update(PIP_USER='0', PIP_DISABLE_PIP_VERSION_CHECK='1')
        kwargs = dict(env=env, stdin=subprocess.DEVNULL, text=True, **kwargs)
        return subprocess.run([self.python, '-I', *map(str, args)], **kwargs)

    def pip(self, command: str, *args, purpose: str) -> None:
        """Run pip; quietly where nobody watches a progress bar."""
        quiet = [] if sys.stdout.isatty() else ['-qq']
        if self.run('-m', 'pip', command, *quiet, *args).returncode:
            raise SetupError(
                f'pip failed to {purpose} (see above); run the same command again to '
                'continue from here.'
            )

    def works(self) -> bool:
        """Whether its Python starts, has the right version and a pip."""
        if not self.python.exists():
            return False
        program = 'import sys, pip; print(*sys.version_info[:2])'
        result = self.run('-c', program, capture_output=True)
        return result.stdout.split() == [str(number) for number in PYTHON]

    def read_record(self) -> dict[str, str]:
        """What was verified, by part, and ``stack``; empty if nothing was."""
        try:
            return json.loads(self.record.read_text('utf-8'))
        except (OSError, ValueError):  # not there, or cut short
            return {}

    def write_record(self, **verified: str) -> None:
        self.record.write_text(json.dumps(dict(verified, stack=self.stack)), 'utf-8')

    def require_stack(self) -> None:
        """Refuse an environment of the other stack."""
        packages = 'lib/python*/site-packages'
        signs = {
            stack
            for name, stack in SIGNS.items()
            if any(self.folder.glob(f'{packages}/{name}-*.dist-info'))
        }
        # Environments from before there were two stacks have no entry.
        found = {self.read_record().get('stack')} - {None} or signs
        if found - {self.stack}:
            other = ' and '.join(sorted(found))
            raise SetupError(
                f'{self.folder} is an environment of the {other} stack: pass '
                f'STACK={sorted(found)[0]}, or another folder with VENV=... for the '
                f'{self.stack} one.'
            )

    def ensure(self) -> None:
        """Create the environment, or make anew one of ours that does not start."""
        self.require_stack()
        if self.works():
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            if not self.record.exists():
                raise SetupError(
                    f'{self.folder} is not a working environment of Python '
                    f'{".".join(map(str, PYTHON))} and was not made by this set-up: '
                    'remove it or pass another folder with VENV=...'
                )
            say(f'{self.folder} does not work, making it anew')
            shutil.rmtree(self.folder)
        free = shutil.disk_usage(existing_parent(self.folder)).free / 2**30
        needed = GIGABYTES[self.stack]
        if free < needed:
            raise SetupError(
                f'About {needed} GB are needed for {self.folder}, {free:.1f} GB are '
                'free: make room or pass another folder with VENV=...'
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write_record()
        say(f'making the virtual environment {self.folder}')
        if subprocess.call([sys.executable, '-m', 'venv', self.folder]):
            raise SetupError(f'{sys.executable} could not make {self.folder}.')

    def problems(self, part: str, thorough: bool) -> dict[str, str]:
        """What is wrong with the packages, by name (see ``check.py``)."""
        query = dict(
            dense=part == 'dense',
            files=[str(path) for path in requirement_files(self.stack, part)],
            repository=str(REPOSITORY),
            thorough=thorough,
        )
        program = ('-W', 'ignore', HERE / 'check.py')
        result = self.run(*program, json.dumps(query), stdout=subprocess.PIPE)
        if result.returncode:
            raise SetupError(f'{self.folder} could not be checked (see above).')
        return json.loads(result.stdout.splitlines()[-1])

    def remove_remains(self) -> None:
        """Clear what an interrupted pip leaves and would stumble over."""
        for packages in self.folder.glob('lib/python*/site-packages'):
            for path in packages.iterdir():
                # pip writes the list of files last.
                unfinished = path.suffix == '.dist-info' and not (
                    (path / 'METADATA').exists() and (path / 'RECORD').exists()
                )
                if path.name.startswith('~') or unfinished:
                    say(f'removing {path.name}, left by an interrupted installation')
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def remove(self, names: list[str]) -> None:
        """Uninstall packages, if any."""
        if names:
            say(f'removing {", ".join(names)}')
            self.pip('uninstall', '-y', *names, purpose=f'remove {", ".join(names)}')


def existing_parent(path: Path) -> Path:
    """The nearest folder above ``path`` that is there."""
    return path if path.exists() else existing_parent(path.parent)


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
