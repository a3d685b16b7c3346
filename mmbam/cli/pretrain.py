"""Pre-train a network on a folder of images, with settings derived from both."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from mmengine.dist import is_main_process
from mmengine.registry import init_default_scope
from torch.cuda import device_count, is_available

from mmbam.recipes.derive import Recipe, Wishes, derive
from mmbam.recipes.folder import measure
from mmbam.recipes.networks import NAMES
from mmbam.recipes.run import prepare, result, run_on_devices, train
from mmbam.utils.config import Options, read_config
from mmbam.utils.errors import InputError
from mmbam.utils.tables import print_texts

#: mmengine's runner joins the group of ranks.
JOIN = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'images', metavar='IMAGES', help='folder of images; sub-folders are searched'
    )
    parser.add_argument(
        '--model',
        default='resnet18',
        help=f'network: {", ".join(NAMES)}, or timm:NAME (default: resnet18)',
    )
    parser.add_argument(
        '--epochs', type=int, default=100, help='times through all images [100]'
    )
    parser.add_argument(
        '--batch-size',
        type=int,
        help='images in a batch of all devices [256, fewer for small folders]',
    )
    parser.add_argument(
        '--devices',
        type=int,
        default=1,
        metavar='N',
        help='GPUs of this machine, or processes where there is none [1]',
    )
    parser.add_argument(
        '--out', metavar='DIR', help='folder of the run [runs/<IMAGES>-<model>]'
    )
    parser.add_argument('--init', metavar='FILE', help='weights to start from')
    parser.add_argument(
        '--teacher', metavar='MODEL', help='network of a frozen teacher to learn from'
    )
    parser.add_argument(
        '--teacher-checkpoint', metavar='FILE', help='weights of the teacher'
    )
    parser.add_argument(
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
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=Options,
        default={},
        metavar='KEY=VALUE',
        help='settings of the derived config to change',
    )
    # How this command calls itself on each device.
    parser.add_argument('--launcher', default='none', help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> dict[str, str]:
    if args.launcher != 'none':
        from mmbam.engine.signals import end_with_parent

        end_with_parent()
        outcome = train(Path(args.out, 'config.py'), args.resume, args.launcher)
        if is_main_process():
            summarize(outcome, args)
        return outcome
    init_default_scope('mmpretrain')
    recipe = plan(args)
    out = recipe.config.work_dir
    print_texts(
        f'Pre-training {args.model} on {args.images}',
        ('what', 'value', 'why'),
        recipe.rows,
    )
    if args.dry_run:
        return dict(out=out, config='', page='', checkpoint='')
    path = prepare(recipe.config, args.resume)
    print(f'The config is {path}, the page to watch {path.with_name("index.html")}.')
    sys.stdout.flush()
    if args.devices == 1:
        outcome = train(path, args.resume)
        summarize(outcome, args)
        return outcome
    words = ['pretrain', args.images, '--out', out, '--launcher', 'pytorch']
    # For the commands that the summary suggests.
    words += ['--devices', str(args.devices), '--model', args.model]
    if args.labelled:
        words += ['--labelled', args.labelled]
    run_on_devices(args.devices, words + ['--resume'] * args.resume)
    return result(path)


def plan(args: argparse.Namespace) -> Recipe:
    """Look at the images, and derive the config."""
    if args.devices < 1:
        raise InputError(f'--devices must be at least 1, but got {args.devices}.')
    gpu = is_available()
    if gpu and args.devices > device_count():
        raise InputError(
            f'--devices {args.devices} is more than the {device_count()} GPUs of this '
            'machine.'
        )
    images = Path(args.images)
    name = re.sub(r'[^\w.-]+', '-', f'{images.resolve().name}-{args.model}')
    out = args.out or os.path.join('runs', name)
    wishes = Wishes(
        args.model,
        out,
        epochs=args.epochs,
        batch_size=args.batch_size,
        devices=args.devices * int(os.environ.get('NNODES', '1')),
        gpu=gpu,
        cores=_cores(),
        init=args.init,
        teacher=args.teacher,
        teacher_checkpoint=args.teacher_checkpoint,
        labelled=args.labelled,
        options=dict(args.cfg_options),
    )
    return derive(measure(images), wishes)


def _cores() -> int:
    if hasattr(os, 'sched_getaffinity'):  # on Linux: those that this process may use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def summarize(outcome: dict[str, str], args: argparse.Namespace) -> None:
    """Say where everything is, and what to type next."""
    config, checkpoint = outcome['config'], outcome['checkpoint']
    more = '' if args.devices == 1 else f' --devices {args.devices}'
    pipeline = read_config(config).train_dataloader.dataset.pipeline
    size = next(step.views[0].size for step in pipeline if 'views' in step)
    lines = [
        '',
        f'Done. The weights are in {checkpoint}.',
        f'Page:            {outcome["page"]}',
        'What you may type next:',
        f'  accuracy       mmbam knn {config} {checkpoint}'
        + ('' if args.labelled else f' --size {size} --train DIR --test DIR'),
        f'  other formats  mmbam convert {checkpoint} backbone.pth --to timm',
        f'  attention      mmbam draw attention {config} {checkpoint} {args.images}',
        f'  after a stop   mmbam pretrain {args.images} --out {outcome["out"]}'
        f'{more} --resume (and the other arguments of this run)',
    ]
    print('\n'.join(lines))
