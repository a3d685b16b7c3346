"""The command ``mmbam``: finds the verb, parses its arguments, calls it.

``mmbam --help`` must answer at once: nothing heavy may be imported here at the top.
"""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from mmbam.version import __version__

# Verb, and what --help says of it. Each is a module of this folder with the functions
# add_arguments(parser) and run(args); only that of the verb in use is imported, and it
# imports what is heavy in run. A module may also hold JOIN = False, if something else
# joins the group of ranks, and STOPPED, a sentence to show after Ctrl-C.
VERBS = {
    'pretrain': 'pre-train on a folder of images, with settings derived from it',
    'train': 'train from a config of mmbam or any other OpenMMLab project',
    'test': 'test a checkpoint with a config of any OpenMMLab project',
    'knn': 'accuracy of nearest neighbors on frozen features',
    'linear': 'accuracy of a linear probe on frozen features',
    'transfer': 'logistic regression on the features of other data sets',
    'cluster': 'k-means on frozen features against the labels',
    'video': 'masks propagated through videos by frozen features',
    'compare': 'pre-train with several methods under the same conditions',
    'demo': 'pre-train a tiny network on made images, show what it learned',
    'chain': 'the demo, then detection, segmentation and videos with the result',
    'doctor': 'versions, devices, data loading, and what the curves of a run say',
    'convert': "write a backbone under the names of another library's weights",
    'world': 'make the small world that demo and tiny configs run on',
    'split': 'write a class-balanced part of a data set as a list',
    'subset': 'write the annotations of the first images of a COCO file',
    'stats': 'mean and deviation of each band of images, for a config',
    'embed': 'embeddings of all images of a folder, in one file',
    'neighbors': 'a page of nearest images and near-duplicates',
    'export': 'a backbone for another library, with a proof',
    'judge': 'which checkpoint and which run to take, without labels',
    'pack': 'pack a folder of images into shards that are read fast',
}
# Verbs with a word of their own behind them, as in `mmbam draw attention`; their module
# is `draw_attention`.
GROUPS: dict[str, dict[str, str]] = {
    'draw': {
        'attention': 'where a network looks in images',
        'crops': 'heat maps, boxes, random and contrastive crops',
        'entropies': 'the entropies of A and B over training',
        'similarities': 'similarities by the kind of pair',
        'clustering': 'what `mmbam cluster` measured, against the number of classes',
    },
}


# A link to docs/ in the repository, a copy of it in an installed package.
DOCS = Path(__file__).resolve().parents[1] / '.mim' / 'docs'


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Adds the default of an argument to its help, if there is something to say."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        # Compared by type, because 0 is a default worth knowing.
        if action.default is None or action.default in ([], {}) or action.const is True:
            return action.help
        return super()._get_help_string(action)


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the whole command; only the verb of ``words`` has its arguments."""
    parser = argparse.ArgumentParser(
        prog='mmbam',
        description='Pre-train vision backbones without labels (BAM).',
        epilog=f'Documentation: {DOCS}',
        formatter_class=argparse.RawDescriptionHelpFormatter,  # a path in one line
    )
    parser.add_argument('--version', action='version', version=f'mmbam {__version__}')
    verbs = parser.add_subparsers(metavar='VERB', required=True)
    _add_verbs(verbs, VERBS, words, '')
    for group, members in GROUPS.items():
        chosen = words[1:] if words[:1] == [group] else []
        group_parser = verbs.add_parser(group, help=' | '.join(members))
        of_group = group_parser.add_subparsers(metavar='WHAT', required=True)
        _add_verbs(of_group, members, chosen, f'{group}_')
    return parser


def _add_verbs(
    subparsers: argparse._SubParsersAction,
    verbs: dict[str, str],
    words: Sequence[str],
    prefix: str,
) -> None:
    for verb, about in verbs.items():
        if words[:1] != [verb]:
            subparsers.add_parser(verb, help=about)
            continue
        module = import_module(f'mmbam.cli.{prefix}{verb}')
        own = subparsers.add_parser(
            verb, help=about, description=module.__doc__, formatter_class=Help
        )
        module.add_arguments(own)
        own.set_defaults(verb=module, parser=own)


def main(words: Sequence[str] | None = None) -> None:
    """Run a command line.

    Args:
        words (Sequence[str], optional): Words behind ``mmbam``. Defaults to None: those
            of this process.
    """
    words = list(sys.argv[1:] if words is None else words) or ['--help']
    # mmpretrain's, about operators that nothing here uses.
    warnings.filterwarnings('ignore', message='Fail to import')
    args, unknown = build_parser(words).parse_known_args(words)
    verb, parser = args.verb, args.parser
    del args.verb, args.parser
    if unknown:  # said by the verb, whose usage helps
        parser.error(f'unrecognized arguments: {" ".join(unknown)}')
    stopped = getattr(verb, 'STOPPED', None)
    try:
        # Heavy, so only once there is something to run.
        from mmbam.engine import torchrun

        from .common import needs_processes, run_command

        if needs_processes(args):
            start = partial(torchrun.start, args.devices, ['-m', 'mmbam', *words])
            run_command(start, False, parser.prog)
            return
        if stopped:  # by a signal as by Ctrl-C, together with the processes of this one
            signal.signal(signal.SIGTERM, _interrupt)
        join = getattr(verb, 'JOIN', True)
        run_command(lambda: verb.run(args), join, parser.prog)
    except KeyboardInterrupt:
        print(f'\n{stopped or "Stopped."}', file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == '__main__':
    main()
