"""The command ``mmbam``: finds the verb, parses its arguments, calls it."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

# Verb, and what --help says of it. Each is a module of this folder with the functions
# add_arguments(parser) and run(args); only that of the verb in use is imported.
VERBS = {
    'export': 'a backbone for another library, with a proof',
    'knn': 'accuracy of nearest neighbours on frozen features',
}
# Verbs with a word of their own behind them, as in `mmbam draw attention`; their module
# is `draw_attention`.
GROUPS: dict[str, dict[str, str]] = {}


def build_parser(words: list[str]) -> argparse.ArgumentParser:
    """The parser of the whole command, in which only one verb has its arguments.

    Args:
        words (list[str]): The command line, of which the first words choose the verb.
    """
    parser = argparse.ArgumentParser(
        prog='mmbam', description='Pre-train vision backbones without labels (BAM).'
    )
    _add_verbs(parser, VERBS, words, '')
    for group, verbs in GROUPS.items():
        chosen = words[1:] if words[:1] == [group] else []
        group_parser = parser.verbs.add_parser(group, help=f'{", ".join(verbs)}')
        _add_verbs(group_parser, verbs, chosen, f'{group}_')
    return parser


def _add_verbs(
    parser: argparse.ArgumentParser, verbs: dict[str, str], words: list[str], of: str
) -> None:
    parser.verbs = parser.add_subparsers(metavar='VERB', required=True)
    for verb, about in verbs.items():
        if words[:1] != [verb]:
            parser.verbs.add_parser(verb, help=about)
            continue
        module = import_module(f'mmbam.cli.{of}{verb}')
        own = parser.verbs.add_parser(verb, help=about, description=module.__doc__)
        module.add_arguments(own)
        own.set_defaults(run=module.run, prog=own.prog)


def main() -> None:
    """Run the command line."""
    args = build_parser(sys.argv[1:]).parse_args()
    from .common import run_command  # heavy, so only once there is something to run

    run_command(lambda: args.run(args), name=args.prog)


if __name__ == '__main__':
    main()
