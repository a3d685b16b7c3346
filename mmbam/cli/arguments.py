"""Arguments that several verbs share.

Nothing heavy may be imported here, nor at the top of a verb's module: a question for
help or a wrong argument is answered at once.
"""

from __future__ import annotations

import argparse
from typing import Any

# What the rooms below call these. They are repeated here, because each room takes
# seconds to import; a test compares them.
SOURCES = ('auto', 'teacher', 'student')
LAUNCHERS = ('none', 'pytorch', 'slurm', 'mpi')


class Options(argparse.Action):
    """Action of ``--cfg-options``: mmengine's, but refuses what is not KEY=VALUE."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Parse the values."""
        from mmengine.config import DictAction  # heavy

        for value in values:
            if not value.partition('=')[0] or '=' not in value:
                parser.error(f'{option_string} needs KEY=VALUE, but got {value!r}')
        read = DictAction(self.option_strings, self.dest, nargs='+')
        read(parser, namespace, values, option_string)


def add_options_argument(
    parser: argparse.ArgumentParser, config: str = 'the config'
) -> None:
    """Add ``--cfg-options``; ``config`` is what they change."""
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=Options,
        default={},
        metavar='KEY=VALUE',
        help=f'settings of {config} to change: a.b=1 c=[1,2]',
    )


def add_devices_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--devices`` to a command that several processes share."""
    parser.add_argument(
        '--devices',
        type=int,
        metavar='N',
        help='number of GPUs, or of CPU processes where there is no GPU, to run on; '
        'the variables NNODES, NODE_RANK, MASTER_ADDR and PORT add machines, and '
        'RESTARTS=3 starts all again, up to three times, if one dies',
    )


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a network in a checkpoint."""
    parser.add_argument(
        '--source',
        choices=SOURCES,
        default='auto',
        help='which network of the checkpoint to take; auto prefers the teacher',
    )
    parser.add_argument(
        '--prefix',
        help="what the names of the network's weights begin with in the file",
    )


def add_loader_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how images are loaded."""
    parser.add_argument(
        '--batch-size', type=int, default=64, help='images in a batch of each device'
    )
    parser.add_argument(
        '--num-workers',
        type=int,
        default=2,
        help='processes that load images for each device',
    )


def add_bands_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument that chooses bands for a picture."""
    parser.add_argument(
        '--bands',
        type=int,
        nargs=3,
        help='bands to show as red, green and blue, from 0 (default: first three)',
    )


def add_network_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that :func:`mmbam.cli.common.load_network` reads."""
    parser.add_argument(
        'config',
        help='config whose model.backbone is used, mmbam::NAME for one of ours',
    )
    parser.add_argument(
        'checkpoint', help='file or folder with weights, see docs/checkpoints.md'
    )
    add_source_arguments(parser)
    add_options_argument(parser)


def add_evaluation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that :class:`mmbam.cli.common.FrozenFeatures` reads."""
    add_network_arguments(parser)
    parser.add_argument(
        '--size',
        type=int,
        help="height and width of the images in pixels; without it, the config's test "
        'pipeline is used',
    )
    add_loader_arguments(parser)
    add_devices_argument(parser)


def add_image_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that :class:`mmbam.cli.images.ImagesAndNetwork` reads."""
    parser.add_argument('images', help='folder of images; sub-folders are searched')
    parser.add_argument(
        'checkpoint', help='file or folder with weights, see docs/checkpoints.md'
    )
    parser.add_argument(
        '--config',
        help='config whose model.backbone is used; without it, the one in the '
        'checkpoint is',
    )
    parser.add_argument(
        '--model', metavar='NAME', help='network of timm to use in place of a config'
    )
    add_source_arguments(parser)
    parser.add_argument(
        '--size',
        type=int,
        help="height and width of the images in pixels; without it, the config's",
    )
    add_loader_arguments(parser)
    parser.add_argument(
        '--half', action='store_true', help='compute and write in half precision'
    )
    add_devices_argument(parser)
    add_options_argument(parser)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that :func:`mmbam.cli.common.load_run_config` reads."""
    parser.add_argument(
        '--work-dir',
        help='folder for logs and checkpoints; without it, work_dirs/NAME_OF_CONFIG',
    )
    parser.add_argument('--amp', action='store_true', help='mixed precision')
    add_options_argument(parser)
    add_devices_argument(parser)
    parser.add_argument(
        '--launcher',
        choices=LAUNCHERS,
        default='none',
        help='what started the processes, if --devices did not',
    )
    # torchrun sets the variable instead; older launchers pass this.
    parser.add_argument(
        '--local_rank', '--local-rank', type=int, default=0, help=argparse.SUPPRESS
    )
