"""The virtual environment that is set up: what it is, and what is known about it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
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
# What a fresh environment takes; torch brings its CUDA libraries.
GIGABYTES = {'classic': 7, 'modern': 9}


class SetupError(RuntimeError):
    """The environment cannot be made; the message is for the user."""


def say(message: str) -> None:
    print(f'[setup] {message}', flush=True)


def requirement_files(stack: str, part: str) -> list[Path]:
    """The files that say what an environment is made of."""
    return [REQUIREMENTS / stack / f'{name}.txt' for name in FILES[part]]


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
