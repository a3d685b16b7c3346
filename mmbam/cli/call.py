"""The verbs as functions: ``mmbam.knn(config=..., checkpoint=..., k=[20])``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .main import GROUPS, VERBS

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

        module = import_module(f'mmbam.cli.{verb}')
        parser = _Parser(prog=f'mmbam.{verb}', allow_abbrev=False)
        module.add_arguments(parser)
        args = parser.namespace_of(arguments)
        use_safe_loading()
        return module.run(args)

    function.__name__ = function.__qualname__ = verb
    function.__doc__ = (
        f'{FUNCTIONS[verb].capitalize()}.\n\n    Takes the arguments of ``mmbam '
        f'{verb.replace("_", " ")} --help`` by name and returns the result.\n    '
    )
    function.__module__ = 'mmbam'
    return function


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
        if arguments.get('devices') is not None:
            self.error(
                'devices is for the command line; start several processes with '
                '`mmbam ... --devices N`'
            )
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
