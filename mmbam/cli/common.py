"""What the commands that evaluate a checkpoint have in common."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

import torch
from mmengine.config import Config, DictAction
from torch import Tensor
from torch.utils.data import Dataset

from mmbam.checkpoints.selection import SOURCES
from mmbam.evaluation.features import extract_features
from mmbam.evaluation.frozen import build_frozen, evaluation_dataset
from mmbam.evaluation.loaders import build_loader
from mmbam.utils.process_group import leave_group


def evaluation_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the arguments that :class:`FrozenFeatures` reads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('config', help='config whose model.backbone is evaluated')
    parser.add_argument('checkpoint', help="of this project, the authors' or timm")
    parser.add_argument('--source', choices=SOURCES, default='auto', help='network')
    parser.add_argument('--size', type=int, help='of the images, in pixels')
    parser.add_argument('--batch-size', type=int, default=64)
    parser.add_argument('--num-workers', type=int, default=2)
    parser.add_argument('--cfg-options', nargs='+', action=DictAction, default={})
    return parser


class FrozenFeatures:
    """Features of a checkpoint's backbone, as the arguments of a command ask for them.

    Args:
        args (argparse.Namespace): What :func:`evaluation_parser` parsed.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        if args.size is not None and args.size < 1:
            raise ValueError(f'--size must be at least 1, but got {args.size}.')
        self.cfg = Config.fromfile(args.config)
        self.cfg.merge_from_dict(args.cfg_options)
        self.args = args
        self.backbone, self.preprocessor = build_frozen(
            self.cfg, args.checkpoint, args.source
        )

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
        dataset = evaluation_dataset(self.cfg, split, folder, self.args.size)
        return self.of(dataset, fraction, gather)

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


def run_command(main: Callable[[], None]) -> None:
    """Run a command on each rank that torchrun started, or alone.

    What the user got wrong is said in one sentence, without a traceback.
    """
    distributed = int(os.environ.get('WORLD_SIZE', 1)) > 1
    if distributed:
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
        torch.distributed.init_process_group('nccl' if cuda else 'gloo')
    try:
        main()
    except (ValueError, FileNotFoundError) as error:
        message = f'{os.path.basename(sys.argv[0])}: {error}'
        if not distributed:
            sys.exit(message)
        print(message, file=sys.stderr, flush=True)
        os._exit(1)  # leaving a group in order waits for ranks that are gone
    leave_group()
