"""What commands have in common: networks, features, configs, how they end."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from mmengine.config import Config
from mmengine.dist import is_distributed
from torch import Tensor, nn
from torch.utils.data import Dataset

from mmbam.checkpoints import use_safe_loading
from mmbam.engine import launch, torchrun
from mmbam.evaluation.features import extract_features
from mmbam.evaluation.frozen import build_frozen, evaluation_dataset
from mmbam.evaluation.loaders import build_dataset, build_loader, require_comparable
from mmbam.utils.config import read_config
from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.process_group import fails_first, join_group, leave_group, lost_contact


class FrozenFeatures:
    """Features of a checkpoint's backbone, as a command's arguments ask for them."""

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


def load_run_config(args: argparse.Namespace) -> Config:
    """Read the config of a run and put the command line's values into it.

    ``args.launcher`` becomes that of ``--devices``.
    """
    if args.devices is not None:
        args.launcher = 'pytorch'
    launch.set_rank(args.launcher, args.local_rank)
    return launch.load_config(
        args.config, args.work_dir, args.cfg_options, args.launcher
    )


def needs_processes(args: argparse.Namespace) -> bool:
    """Whether the arguments ask for processes that are not there yet."""
    return getattr(args, 'devices', None) is not None and not torchrun.is_inside()


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


def load_network(args: argparse.Namespace) -> tuple[Config, nn.Module, nn.Module]:
    """The config, the frozen backbone, and its preprocessor, as arguments name them."""
    cfg = read_config(args.config, args.cfg_options)
    return (cfg, *build_frozen(cfg, args.checkpoint, args.source, args.prefix))
