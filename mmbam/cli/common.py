"""What the commands that evaluate a checkpoint have in common."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from mmengine.dist import is_distributed
from torch import Tensor
from torch.utils.data import Dataset

from mmbam.checkpoints import use_safe_loading
from mmbam.evaluation.features import extract_features
from mmbam.evaluation.frozen import evaluation_dataset
from mmbam.evaluation.loaders import build_dataset, build_loader, require_comparable
from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.process_group import fails_first, join_group, leave_group, lost_contact

from .devices import add_devices_argument
from .network import add_network_arguments, load_network


def add_evaluation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that :class:`FrozenFeatures` reads."""
    add_network_arguments(parser)
    parser.add_argument(
        '--size',
        type=int,
        help="height and width of the images in pixels; without it, the config's test "
        'pipeline is used',
    )
    parser.add_argument(
        '--batch-size', type=int, default=64, help='images in a batch of each device'
    )
    parser.add_argument(
        '--num-workers',
        type=int,
        default=2,
        help='processes that load images for each device',
    )
    add_devices_argument(parser)


class FrozenFeatures:
    """Features of a checkpoint's backbone, as the arguments of a command ask for them.

    Args:
        args (argparse.Namespace): Parsed arguments.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        if args.size is not None and args.size < 1:
            raise InputError(f'--size must be at least 1, but got {args.size}.')
        self.args = args
        self.cfg, self.backbone, self.preprocessor = load_network(args)

    def dataset(self, split: str, folder: str | None = None) -> dict:
        """Config of a data set; see :func:`evaluation_dataset`."""
        return evaluation_dataset(self.cfg, split, folder, self.args.size)

    def comparable(self, train: str | None, test: str | None) -> list[Dataset]:
        """The training and the test set, in folders or of the config."""
        datasets = [
            build_dataset(self.dataset(split, folder))
            for split, folder in (('train', train), ('test', test))
        ]
        require_comparable(*datasets)
        return datasets

    def of_split(
        self,
        split: str,
        folder: str | None = None,
        fraction: float = 1.0,
        gather: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Features and labels of a folder, or of the config's data set.

        Args:
            split (str): ``'train'`` or ``'test'``.
            folder (str, optional): See :func:`evaluation_dataset`. Defaults to None.
            fraction (float): See :func:`build_loader`. Defaults to 1.0.
            gather (bool): See :func:`extract_features`. Defaults to True.
        """
        return self.of(self.dataset(split, folder), fraction, gather)

    def of(
        self, dataset: dict | Dataset, fraction: float = 1.0, gather: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Features and labels of a data set."""
        loader = build_loader(
            dataset, self.args.batch_size, self.args.num_workers, fraction
        )
        return extract_features(
            self.backbone,
            loader,
            data_preprocessor=self.preprocessor,
            gather=gather,
        )


def run_command(
    main: Callable[[], Any], join: bool = True, name: str | None = None
) -> None:
    """Run a command on each rank that torchrun started, or alone.

    What the user got wrong is said in one sentence, once for all ranks. A bug keeps its
    traceback. No checkpoint that is read from here on runs code.

    Args:
        main (Callable): The command.
        join (bool): Whether to join the group of ranks before; a command that trains
            leaves that to mmengine's runner. Defaults to True.
        name (str, optional): Name of the command in its sentences. Defaults to None,
            the name of the script.
    """
    name = name or os.path.basename(sys.argv[0])
    use_safe_loading()
    if join:
        join_group()
    try:
        main()
    except SystemExit as stop:
        if is_distributed():  # all ranks end here together
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(stop.code if isinstance(stop.code, int) else 1)
        raise
    except Exception as error:
        sentence = _sentence(error, name)
        if not is_distributed():
            if sentence is None:
                raise
            sys.exit(sentence if fails_first() else 1)
        first = fails_first()
        if sentence is None and (first or not isinstance(error, RuntimeError)):
            traceback.print_exc()
        elif first:
            print(sentence, file=sys.stderr)
        # Otherwise another rank has said why; its end also ends what this one waits for
        # with a RuntimeError.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # leaving a group in order waits for ranks that are gone
    leave_group()


def _sentence(error: Exception, name: str) -> str | None:
    """What to tell the user of an error that is no bug, or None for a bug."""
    expected = isinstance(error, ExpectedError)
    if expected or (isinstance(error, OSError) and _is_of_named_file(error)):
        return f'{name}: {error}'
    lost = lost_contact(error)
    return f'{name}: {lost}' if lost else None


def _is_of_named_file(error: OSError) -> bool:
    """Whether the command line names the file, or its folder, that the error is of."""
    words = (word.rpartition('=')[2] for word in sys.argv[1:])
    # mmengine's errors have the absolute path in their message alone.
    text = os.path.abspath(str(error.filename)) if error.filename else str(error)
    return any(word and os.path.abspath(word) in text for word in words)
