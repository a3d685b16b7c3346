"""Draw the histogram of pairwise similarities by the kind of pair (Fig. 1).

The images are seen through the first two views of the config's training pipeline.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config, DictAction
from mmengine.registry import MODELS
from torch import nn

from mmbam.checkpoints import read_weights, select_backbone
from mmbam.checkpoints.selection import SOURCES
from mmbam.cli.common import run_command
from mmbam.evaluation import build_loader
from mmbam.evaluation.frozen import build_frozen, class_folders
from mmbam.evaluation.loaders import build_dataset
from mmbam.visualization.attention_histograms import (
    draw_similarities,
    embed_pairs,
    pair_histograms,
)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config with model.backbone and views')
    parser.add_argument('checkpoint', help="of this project, the authors' or timm")
    parser.add_argument('--out', type=Path, default='similarities.png')
    parser.add_argument(
        '--images', metavar='DIR', help="class folders (default: the config's data)"
    )
    parser.add_argument('--num', type=int, default=1024, help='images to draw')
    parser.add_argument('--tau', type=float, default=0.1, help='of the soft-max')
    parser.add_argument(
        '--projector',
        action='store_true',
        help='compare latents behind the projector, as the loss does',
    )
    parser.add_argument('--seed', type=int, default=0, help='of images and views')
    parser.add_argument('--source', choices=SOURCES, default='auto', help='network')
    parser.add_argument('--batch-size', type=int, default=64)
    parser.add_argument('--num-workers', type=int, default=2)
    parser.add_argument('--cfg-options', nargs='+', action=DictAction, default={})
    args = parser.parse_args()
    if args.num < 2:
        parser.error(f'--num must be at least 2, got {args.num}')
    return args


def find_dataset(cfg: Config, folder: str | None) -> dict:
    """Config of the multi-view data set."""
    dataset = (cfg.get('train_dataloader') or {}).get('dataset')
    if dataset is None:
        raise ValueError(
            f'{cfg.filename!r} has no train_dataloader, whose views count.'
        )
    if folder is None:
        return dataset
    if 'pipeline' not in dataset:
        raise ValueError(
            f'The training set of {cfg.filename!r} has no pipeline of its own that '
            'would fit a folder: leave out --images.'
        )
    return class_folders(folder, dataset.pipeline)


def build_projector(cfg: Config, args: argparse.Namespace) -> nn.Module:
    """The projector of the network that build_frozen takes the backbone of."""
    if 'neck' not in cfg.model:
        raise ValueError(f'{cfg.filename!r} has no model.neck: leave out --projector.')
    weights = read_weights(args.checkpoint)
    _, role = select_backbone(weights, args.source)
    prefix = 'teacher.neck.' if role == 'teacher' else 'neck.'
    neck = MODELS.build(cfg.model.neck)
    found = {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }
    try:
        neck.load_state_dict(found)
    except RuntimeError:
        raise ValueError(
            f'The weights {prefix}* of {args.checkpoint!r} are not those of the '
            "config's projector: leave out --projector."
        ) from None
    return neck


def main() -> None:
    args = parse_args()
    cfg = Config.fromfile(args.config)
    cfg.merge_from_dict(args.cfg_options)
    backbone, preprocessor = build_frozen(cfg, args.checkpoint, args.source)
    neck = None
    if args.projector:
        neck = build_projector(cfg, args).to(next(backbone.parameters()).device)
    dataset = build_dataset(find_dataset(cfg, args.images))
    fraction = min(1.0, args.num / max(len(dataset), 1))
    loader = build_loader(
        dataset, args.batch_size, args.num_workers, fraction, args.seed
    )
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    latents, labels = embed_pairs(backbone, preprocessor, loader, neck)
    histograms = pair_histograms(latents, labels, args.tau)
    what = 'latents behind the projector' if args.projector else 'embeddings'
    name = (
        f'{Path(args.checkpoint).name}: {what}, {len(labels):,} images x 2 views, '
        f'tau {args.tau:g}'
    )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    draw_similarities({name: histograms}, args.out)
    print(f'Wrote {args.out}')


if __name__ == '__main__':
    run_command(main)
