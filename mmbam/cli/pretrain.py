"""Pre-train a network on a folder of images, with settings derived from both."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from mmbam.recipes.names import NAMES
from mmbam.utils.errors import InputError

from .arguments import add_devices_argument, add_options_argument

if TYPE_CHECKING:
    from mmbam.recipes.derive import Recipe

#: mmengine's runner joins the group of ranks.
JOIN = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'images', metavar='IMAGES', help='folder of images; sub-folders are searched'
    )
    parser.add_argument(
        '--model',
        default='resnet18',
        help=f'network: {", ".join(NAMES)}, or timm:NAME',
    )
    parser.add_argument(
        '--epochs', type=int, default=100, help='times through all images'
    )
    parser.add_argument(
        '--batch-size',
        type=int,
        help='images in a batch of all devices [256, fewer for small folders]',
    )
    add_devices_argument(parser)
    parser.add_argument(
        '--out', metavar='DIR', help='folder of the run [runs/<IMAGES>-<model>]'
    )
    parser.add_argument('--init', metavar='FILE', help='weights to start from')
    parser.add_argument(
        '--prefix', help='what the names of these weights begin with [found]'
    )
    parser.add_argument(
        '--teacher', metavar='MODEL', help='network of a frozen teacher to learn from'
    )
    parser.add_argument(
        '--teacher-checkpoint', metavar='FILE', help='weights of the teacher'
    )
    parser.add_argument(
        '--labeled',
        '--labelled',
        metavar='DIR',
        help='class folders (or train and val of them) for k-NN accuracy on the way',
    )
    parser.add_argument(
        '--resume', action='store_true', help='go on with the run in --out'
    )
    parser.add_argument(
        '--dry-run', action='store_true', help='only show what would be derived'
    )
    add_options_argument(parser, 'the derived config')


def run(args: argparse.Namespace) -> dict[str, str]:
    from mmengine.registry import init_default_scope

    from mmbam.engine import launch
    from mmbam.engine.config_check import check_config
    from mmbam.engine.hooks.page_hook import PAGE
    from mmbam.recipes.run import pretrain, require_fitting, result
    from mmbam.utils.process_group import was_restarted
    from mmbam.utils.tables import print_texts

    # main() has started the processes.
    launcher = 'none' if args.devices is None else 'pytorch'
    launch.set_rank(launcher, 0)
    init_default_scope('mmpretrain')
    cfg, rows = plan(args)
    check_config(cfg)
    first = os.environ.get('RANK', '0') == '0'
    if first and not args.dry_run:
        require_fitting(cfg, args.resume or was_restarted())
    if first:
        title = f'Pre-training {args.model} on {args.images}'
        print_texts(title, ('what', 'value', 'why'), rows)
    if args.dry_run:
        return dict(out=cfg.work_dir, config='', page='', checkpoint='')
    if first:
        print(f'The page to watch is {os.path.join(cfg.work_dir, PAGE)}.')
        print(f'After a stop, go on by: {resume_command(args)}', flush=True)
    outcome = result(pretrain(cfg, args.resume, launcher))
    if first:
        summarize(outcome, args)
    return outcome


def out_of(args: argparse.Namespace) -> str:
    """The folder of the run."""
    name = f'{Path(args.images).resolve().name}-{args.model}'
    return args.out or os.path.join('runs', re.sub(r'[^\w.-]+', '-', name))


def plan(args: argparse.Namespace) -> Recipe:
    """Look at the images, and derive the config."""
    from torch.cuda import device_count, is_available

    from mmbam.recipes.derive import derive
    from mmbam.recipes.folder import measure
    from mmbam.recipes.wishes import Wishes
    from mmbam.utils.logs import only_warnings

    gpu, here = is_available(), args.devices or 1
    if gpu and here > device_count():
        raise InputError(
            f'--devices {args.devices} is more than the {device_count()} GPUs of this '
            'machine.'
        )
    # torchrun counts the processes of all machines.
    devices = here if args.devices is None else int(os.environ.get('WORLD_SIZE', here))
    wishes = Wishes(
        args.model,
        out_of(args),
        epochs=args.epochs,
        batch_size=args.batch_size,
        devices=devices,
        gpu=gpu,
        cores=_cores() * devices // here,
        init=args.init,
        prefix=args.prefix,
        teacher=args.teacher,
        teacher_checkpoint=args.teacher_checkpoint,
        labeled=args.labeled,
        options=dict(args.cfg_options),
    )
    with only_warnings():  # the table says how many images there are
        return derive(measure(args.images), wishes)


def _cores() -> int:
    if hasattr(os, 'sched_getaffinity'):  # on Linux: those that this process may use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resume_command(args: argparse.Namespace) -> str:
    """The command that goes on with a run, as a shell takes it."""
    words = ['mmbam', 'pretrain', args.images, '--out', out_of(args)]
    for name in ('model', 'epochs', 'batch_size', 'devices', 'init', 'prefix',
                 'teacher', 'teacher_checkpoint', 'labeled'):  # fmt: skip
        if getattr(args, name) is not None:
            words += [f'--{name.replace("_", "-")}', str(getattr(args, name))]
    words.append('--resume')
    if args.cfg_options:
        options = [f'{key}={value}' for key, value in args.cfg_options.items()]
        words += ['--cfg-options', *options]
    return shlex.join(words)


def summarize(outcome: dict[str, str], args: argparse.Namespace) -> None:
    """Say where everything is, and what to type next."""
    from mmbam.utils.config import read_config

    dataset = read_config(outcome['config']).train_dataloader.dataset
    size = next(step.views[0].size for step in dataset.pipeline if 'views' in step)
    # Paths as the user gave them, in a form that a shell takes.
    out = Path(outcome['out'])
    weights = str(out / Path(outcome['checkpoint']).name)
    checkpoint = shlex.quote(weights)
    config, images = shlex.quote(outcome['config']), shlex.quote(args.images)
    # Not in the folder that all runs share: parts of another run's would be in the way.
    neighbors = shlex.quote(str(out / 'neighbors'))
    lines = [
        '',
        f'Done. The weights are in {weights}.',
        f'Page:            {outcome["page"]}',
        'What you may type next:',
        f'  accuracy       mmbam knn {config} {checkpoint}'
        + ('' if args.labeled else f' --size {size} --train DIR --test DIR'),
        f'  neighbors      mmbam neighbors {images} {checkpoint} --out {neighbors}',
        f'  how it went    mmbam doctor {shlex.quote(str(out))}',
        # Of all formats, this one takes any network and needs no other package.
        f'  other formats  mmbam export {checkpoint} --to torchscript',
    ]
    if dataset.type != 'mmbam.ShardDataset':  # pictures are drawn of files alone
        lines.append(
            f'  attention      mmbam draw attention {config} {checkpoint} {images} '
            '--out attention.png'
        )
    print('\n'.join(lines))
