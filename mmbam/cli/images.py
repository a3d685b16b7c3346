"""Images and a checkpoint of any kind, as embed and neighbors take them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from mmbam.evaluation.embed import embed, embed_files, stamp
from mmbam.evaluation.frozen import build_frozen, data_preprocessor, evaluation_pipeline
from mmbam.evaluation.loaders import ImageFiles, image_names, images_in
from mmbam.evaluation.networks import network_config
from mmbam.utils.errors import InputError


class ImagesAndNetwork:
    """A frozen network and the images for it, as the arguments of a command name them.

    Args:
        args (argparse.Namespace): Parsed arguments.
    """

    backbone: nn.Module
    preprocessor: nn.Module

    def __init__(self, args: argparse.Namespace) -> None:
        if args.size is not None and args.size < 1:
            raise InputError(f'--size must be at least 1, but got {args.size}.')
        self.args = args
        self.cfg = network_config(
            args.checkpoint, args.config, args.model, args.size, args.cfg_options
        )
        steps = evaluation_pipeline(self.cfg, args.size or self.cfg.get('size'))
        # No other image may take the place of one that cannot be read.
        self.pipeline = [
            {**step, 'max_errors': 0} if step['type'].endswith('LoadImage') else step
            for step in steps
        ]
        self.dataset = images_in(args.images, self.pipeline)
        self.names = image_names(self.dataset, args.images)
        self.backbone, self.preprocessor = build_frozen(
            self.cfg, args.checkpoint, args.source, args.prefix
        )

    def embed(self, out: str | Path, tokens: bool = False) -> Path:
        """Write the embeddings of all images, and forget those that cannot be read."""
        args = self.args
        settings: dict[str, Any] = dict(
            checkpoint=stamp(args.checkpoint),
            network=str(self.cfg.model.backbone),
            pipeline=str(self.pipeline),
            normalization=str(data_preprocessor(self.cfg)),
            source=args.source,
            prefix=args.prefix,
        )
        kept = embed(
            self.backbone,
            self.dataset,
            out,
            names=self.names,
            preprocessor=self.preprocessor,
            batch_size=args.batch_size,
            num_workers=args.num_workers,
            tokens=tokens,
            half=args.half,
            settings=settings,
        )
        if len(kept) < len(self.names):
            self.dataset.get_subset_(kept)
            self.names = [self.names[number] for number in kept]
        return Path(out)

    def queries(self, paths: list[str]) -> tuple[ImageFiles, Tensor]:
        """Single images and their embeddings."""
        files = ImageFiles(paths, self.pipeline)
        return files, embed_files(self.backbone, files, self.preprocessor)
