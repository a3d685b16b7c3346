"""The verbs as functions: ``mmbam.knn(config=..., checkpoint=..., k=[20])``."""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from .main import GROUPS, VERBS

# Files in which the processes of a call find its arguments, and leave its result.
CALL, RESULT = 'call.pkl', 'result.pkl'
FUNCTIONS = dict(VERBS)
for group, members in GROUPS.items():
    FUNCTIONS.update({f'{group}_{verb}': about for verb, about in members.items()})


def function_of(verb: str) -> Callable[..., Any]:
    """Return the function that does what a verb does.

    Args:
        verb (str): Name of the verb's module, as ``knn`` or ``draw_attention``.
    """

    def function(**arguments: Any) -> Any:
        from mmbam.checkpoints import use_safe_loading  # heavy

        from .devices import needs_processes

        module, args = _prepare(verb, arguments)
        if needs_processes(args):
            return _run_in_processes(verb, arguments)
        use_safe_loading()
        return module.run(args)

    function.__name__ = function.__qualname__ = verb
    function.__doc__ = (
        f'{FUNCTIONS[verb].capitalize()}.\n\n    Takes the arguments of ``mmbam '
        f'{verb.replace("_", " ")} --help`` by name and returns the result.\n    '
    )
    function.__module__ = 'mmbam'
    return function


def _prepare(verb: str, arguments: dict[str, Any]) -> tuple[Any, argparse.Namespace]:
    """The module of a verb, and the arguments as it reads them."""
    module = import_module(f'mmbam.cli.{verb}')
    parser = _Parser(prog=f'mmbam.{verb}', allow_abbrev=False)
    module.add_arguments(parser)
    return module, parser.namespace_of(arguments)


def _run_in_processes(verb: str, arguments: dict[str, Any]) -> Any:
    """Call a verb in as many processes as ``devices`` says; the result of the first."""
    from mmbam.utils.errors import InputError

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, CALL).write_bytes(pickle.dumps((verb, arguments)))
        done = subprocess.run([sys.executable, '-m', 'mmbam.cli.call', folder])
        if done.returncode:
            raise InputError(
                f'mmbam.{verb} ended with exit code {done.returncode} on '
                f'{arguments["devices"]} devices: its processes have said why.'
            )
        return pickle.loads(Path(folder, RESULT).read_bytes())


def main() -> None:
    """Start the processes of :func:`_run_in_processes`, or be one of them."""
    from mmengine.dist import is_main_process

    from mmbam.engine import torchrun

    from .common import run_command

    folder = sys.argv[1]
    verb, arguments = pickle.loads(Path(folder, CALL).read_bytes())
    name = f'mmbam.{verb}'
    if not torchrun.is_inside():
        command = ['-m', 'mmbam.cli.call', folder]
        run_command(lambda: torchrun.start(arguments['devices'], command), False, name)
        return
    module, args = _prepare(verb, arguments)

    def run() -> None:
        result = module.run(args)
        if is_main_process():
            Path(folder, RESULT).write_bytes(pickle.dumps(result))

    run_command(run, getattr(module, 'JOIN', True), name)


class _Parser(argparse.ArgumentParser):
    """Reads Python values as the command line reads words, with the same checks."""

    def error(self, message: str) -> None:  # type: ignore[override]
        from mmbam.utils.errors import InputError

        raise InputError(f'{self.prog}: {message}')

    def namespace_of(self, arguments: dict[str, Any]) -> argparse.Namespace:
        """Arguments of a function as those of its verb."""
        from mmbam.utils.config import close

        known = {a.dest: a for a in self._actions if a.dest != 'help'}
        for name in arguments:
            if name not in known:
                self.error(f'there is no argument {name!r}{close(name, known)}')
        words, as_they_are = [], {}
        for name, action in known.items():
            value = arguments.get(name)
            if value is None or value is False:
                continue  # as if it had not been given
            if isinstance(value, dict):
                as_they_are[name] = value  # as words, options would lose their types
                continue
            values = value if isinstance(value, (list, tuple)) else [value]
            texts = [] if value is True else [str(one) for one in values]
            words += [*action.option_strings[-1:], *texts]
        namespace = self.parse_args(words)
        for name, value in as_they_are.items():
            setattr(namespace, name, value)
        return namespace


if __name__ == '__main__':
    main()
