"""The verbs as functions: ``mmbam.knn('config.py', 'weights.pth', k=[20])``."""

from __future__ import annotations

import argparse
import inspect
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
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
    module, parser = _parser_of(verb)

    def function(*positional: Any, **arguments: Any) -> Any:
        from mmbam.checkpoints import use_safe_loading  # heavy

        from .common import needs_processes

        arguments = parser.named(positional, arguments)
        args = parser.namespace_of(arguments)
        if needs_processes(args):
            return _run_in_processes(verb, arguments)
        use_safe_loading()
        return module.run(args)

    function.__name__ = function.__qualname__ = verb
    function.__module__ = 'mmbam'
    function.__doc__ = parser.docstring(FUNCTIONS[verb])
    function.__signature__ = parser.signature(module.run)  # type: ignore[attr-defined]
    return function


def _parser_of(verb: str) -> tuple[Any, _Parser]:
    """The module of a verb, and a parser of its arguments."""
    module = import_module(f'mmbam.cli.{verb}')
    parser = _Parser(prog=f'mmbam.{verb}', allow_abbrev=False)
    module.add_arguments(parser)
    return module, parser


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
    module, parser = _parser_of(verb)
    args = parser.namespace_of(arguments)

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

    @property
    def shown(self) -> list[argparse.Action]:
        """The arguments that a user may know of."""
        hidden = ('help', argparse.SUPPRESS)
        return [a for a in self._actions if not {a.dest, a.help} & {*hidden}]

    def signature(self, run: Callable[..., Any]) -> inspect.Signature:
        """The signature of a function with these arguments."""
        positional = [a for a in self.shown if not a.option_strings]
        options = [a for a in self.shown if a.option_strings]
        parameters: list[inspect.Parameter] = []
        needed = False
        for action in reversed(positional):  # one before a needed one is needed, too
            needed = needed or action.required
            parameters.insert(0, _parameter(action, needed))
        parameters += [_parameter(action, action.required) for action in options]
        return inspect.Signature(
            parameters, return_annotation=run.__annotations__['return']
        )

    def docstring(self, about: str) -> str:
        """The docstring of a function with these arguments."""
        lines = [f'{about[0].upper()}{about[1:]}.', '', 'Args:']
        for action in self.shown:
            given = '' if action.required else ', optional'
            choices = [*map(str, action.choices or ())]
            values = f' ({", ".join(choices)})' if choices else ''
            lines.append(
                f'    {action.dest} ({_type_of(action).__name__}{given}): '
                f'{action.help}{values}.'
            )
        return '\n'.join(lines)

    def named(
        self, positional: Sequence[Any], arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """All arguments of a call by their names."""
        names = [a.dest for a in self.shown if not a.option_strings]
        if len(positional) > len(names):
            known = f'only {" and ".join(names)} can' if names else 'no argument can'
            self.error(
                f'{known} be given without a name, but got {len(positional)} values'
            )
        given = dict(zip(names, positional))
        for name in given:
            if name in arguments:
                self.error(f'argument {name!r} is given twice')
        return {**given, **arguments}

    def namespace_of(self, arguments: dict[str, Any]) -> argparse.Namespace:
        """Arguments of a function as those of its verb."""
        known = {a.dest: a for a in self._actions if a.dest != 'help'}
        for name in arguments:
            if name not in known:
                from mmbam.utils.config import close  # heavy

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


def _type_of(action: argparse.Action) -> type:
    """The type of an argument, as far as a reader is concerned."""
    if action.nargs == 0:
        return bool
    if isinstance(action.default, dict):
        return dict
    if action.nargs is not None and action.nargs != '?':
        return list
    return action.type if isinstance(action.type, type) else str


def _parameter(action: argparse.Action, needed: bool) -> inspect.Parameter:
    """An argument of a verb as that of a function."""
    kind = inspect.Parameter
    return inspect.Parameter(
        action.dest,
        kind.KEYWORD_ONLY if action.option_strings else kind.POSITIONAL_OR_KEYWORD,
        default=kind.empty if needed else action.default,
        annotation=_type_of(action),
    )


if __name__ == '__main__':
    main()
