"""The config of a checkpoint's network: given, of timm, or the checkpoint's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmbam.checkpoints.reading import read_checkpoint
from mmbam.checkpoints.trust import stored_backbone
from mmbam.models.backbones.timm_embedding import timm_config
from mmbam.utils.config import read_config
from mmbam.utils.errors import InputError


def network_config(
    checkpoint: str | Path,
    config: str | Path | None = None,
    model: str | None = None,
    size: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Config:
    """Find the config of the network whose weights a checkpoint holds.

    Nothing in the checkpoint is run: of its own config only literals count, and only
    backbones of mmbam, mmpretrain and timm are built.

    Args:
        checkpoint (str | Path): See :func:`mmbam.checkpoints.read_weights`.
        config (str | Path, optional): Config file to take. Defaults to None.
        model (str, optional): Name of a network in timm to take. Defaults to None: that
            of ``config``, or else the checkpoint's own.
        size (int, optional): Height and width of the images, for networks that are
            built for one size. Defaults to None: those that the network was made for.
        options (Mapping, optional): Values to change in it, by dotted keys. Defaults to
            None.

    Returns:
        Config: With ``model.backbone``, ``data_preprocessor``, and ``size``, the height
        and width of images, unless it is that of ``config``.
    """
    if config is not None and model is not None:
        raise InputError('--config and --model exclude each other: give one of them.')
    if config is not None:
        return read_config(config, options)
    own = {} if model else read_checkpoint(checkpoint).config
    if model or isinstance(own.get('architecture'), str):
        cfg = timm_config(model or own['architecture'], own, size)
    elif isinstance(own.get('model'), Mapping):
        cfg = _of_mmengine(own, checkpoint)
    else:
        raise InputError(
            f'{str(checkpoint)!r} does not say what its network is: give --config, or '
            '--model with the name of a network in timm.'
        )
    for key, value in (options or {}).items():
        cfg.merge_from_dict({key: value})
    return cfg


def _of_mmengine(own: Mapping[str, Any], checkpoint: str | Path) -> Config:
    model = own['model']
    preprocessor = model.get('data_preprocessor') or own.get('data_preprocessor')
    backbone = stored_backbone(own, checkpoint)
    if not isinstance(preprocessor, Mapping) or backbone is None:
        raise InputError(
            f'The config in {str(checkpoint)!r} has no backbone and data_preprocessor: '
            'give --config.'
        )
    kept = {k: preprocessor[k] for k in ('mean', 'std', 'to_rgb') if k in preprocessor}
    return Config(
        dict(
            model=dict(backbone=backbone),
            data_preprocessor=kept,
            size=_size_in(own),
        )
    )


def _size_in(own: Mapping[str, Any]) -> int:
    """Side of the images that a network was trained or tested on."""
    hooks = own.get('custom_hooks')
    hooks = hooks if isinstance(hooks, list) else []
    splits = ('test', 'val', 'train')
    loaders = [_mapping(own, f'{split}_dataloader') for split in splits]
    datasets = [
        *(_mapping(hook, 'test_dataset') for hook in hooks),
        *(_mapping(loader, 'dataset') for loader in loaders),
    ]
    for dataset in datasets:
        pipeline = dataset.get('pipeline')
        for step in reversed(pipeline if isinstance(pipeline, list) else []):
            views = step.get('views') if isinstance(step, Mapping) else None
            view = views[0] if isinstance(views, list) and views else {}
            for node, key in ((step, 'crop_size'), (step, 'scale'), (view, 'size')):
                value = node.get(key) if isinstance(node, Mapping) else None
                if isinstance(value, int):
                    return value
    size = _mapping(_mapping(own, 'model'), 'backbone').get('img_size')
    return size if isinstance(size, int) else 224


def _mapping(node: Any, key: str) -> Mapping:
    value = node.get(key) if isinstance(node, Mapping) else None
    return value if isinstance(value, Mapping) else {}
