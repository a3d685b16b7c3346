"""Frozen networks and the data to evaluate them on, from configs and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import MODELS, init_default_scope
from torch import nn

from mmbam.checkpoints import load_backbone, read_weights, select_backbone
from mmbam.datasets.bands import RGB
from mmbam.datasets.folder import class_names, dataset_of
from mmbam.datasets.shards.index import is_shards
from mmbam.utils.config import build_errors, walk
from mmbam.utils.errors import InputError, input_errors

# Reads every format that pre-training reads. No image may be missing.
LOAD = dict(type='mmbam.LoadImage', max_errors=0)


def build_frozen(
    cfg: Config,
    checkpoint: str | Path | None,
    source: str = 'auto',
    prefix: str | None = None,
) -> tuple[nn.Module, nn.Module]:
    """Build the backbone of a config with the weights of a checkpoint.

    Args:
        cfg (Config): Config of this project or of mmpretrain with
            ``model.backbone``.
        checkpoint (str | Path, optional): Checkpoint to load strictly. None leaves the
            network at its random initialization.
        source (str): ``'teacher'``, ``'student'`` or ``'auto'``; see
            :func:`mmbam.checkpoints.select_backbone`. Defaults to ``'auto'``.
        prefix (str, optional): See :func:`mmbam.checkpoints.load_backbone`. Defaults to
            None.

    Returns:
        tuple[nn.Module, nn.Module]: The backbone, and the preprocessor of its images.
    """
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    model = cfg.get('model') or {}
    if 'backbone' not in model:
        raise InputError(f'{_name(cfg)} has no model.backbone to evaluate.')
    preprocessor = data_preprocessor(cfg)
    if preprocessor is None:
        raise InputError(
            f'{_name(cfg)} has no data_preprocessor, which the backbone needs to see '
            'images as in training.'
        )
    # mmpretrain's models fill in the type. At test time all their choices are equal.
    preprocessor = {'type': 'mmpretrain.ClsDataPreprocessor', **preprocessor}
    with build_errors(of=_name(cfg)), input_errors((ValueError,), of=_name(cfg)):
        preprocessor = MODELS.build(preprocessor)
        backbone = MODELS.build(model['backbone'])
    if checkpoint is None:
        backbone.init_weights()
    else:
        load_backbone(backbone, checkpoint, source, prefix=prefix)
    device = get_device()
    backbone.to(device).eval()
    return backbone, preprocessor.to(device)


def data_preprocessor(cfg: Config) -> dict | None:
    """Config of what normalizes the images, the model's own before the common one."""
    return cfg.model.get('data_preprocessor') or cfg.get('data_preprocessor')


def build_frozen_neck(
    cfg: Config, checkpoint: str | Path, source: str = 'auto'
) -> nn.Module:
    """Build the projector that belongs to the backbone of :func:`build_frozen`.

    The arguments are the same; the checkpoint must be of a pre-training run.
    """
    if 'neck' not in cfg.model:
        raise InputError(f'{_name(cfg)} has no model.neck: leave out --projector.')
    weights = read_weights(checkpoint)
    _, role = select_backbone(weights, source)
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
        raise InputError(
            f'The weights {prefix}* of {str(checkpoint)!r} are not those of the '
            "config's projector: leave out --projector."
        ) from None
    return neck.to(get_device()).eval()


def multi_view_dataset(
    cfg: Config, folder: str | Path | None = None, labels: bool = True
) -> dict:
    """Find the config of the data set whose views a config trains on.

    A ``folder``, of class folders if ``labels`` are needed, is seen through the same
    pipeline instead.
    """
    dataset = (cfg.get('train_dataloader') or {}).get('dataset')
    if dataset is None:
        raise InputError(f'{_name(cfg)} has no train_dataloader to take views from.')
    if folder is None:
        return dataset
    if 'pipeline' not in dataset:
        raise InputError(
            f'The training set of {_name(cfg)} has no pipeline of its own that would '
            'fit a folder: leave out --images.'
        )
    if not labels:
        return dataset_of(folder, pipeline=dataset.pipeline)
    return class_folders(folder, dataset.pipeline)


def evaluation_dataset(
    cfg: Config,
    split: str,
    folder: str | Path | None = None,
    size: int | None = None,
) -> dict:
    """Find the set for an evaluation on frozen features: ``'train'`` or ``'test'``.

    Taken from the config's KNNHook if it has one, else from its training or its test
    (or validation) loader, or from a ``folder`` of class folders. The training set uses
    the test pipeline, too; with a ``size`` it is that of :func:`plain_pipeline`.
    """
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    pipeline = evaluation_pipeline(cfg, size)
    if folder is not None:
        return class_folders(folder, pipeline)
    dataset = _datasets(cfg)[split]
    if not dataset:
        raise InputError(
            f'{_name(cfg)} has no {split} set with labels (in a KNNHook or a loader): '
            'give a folder of class folders.'
        )
    return {**dataset, 'pipeline': pipeline}


def evaluation_pipeline(cfg: Config, size: int | None = None) -> list[dict]:
    """Find the test pipeline of a config, see :func:`evaluation_dataset`."""
    if size is not None:
        return plain_pipeline(size, loading_step(cfg))
    test = _datasets(cfg)['test']
    if not (test and test.get('pipeline')):
        raise InputError(
            f'{_name(cfg)} has no test pipeline (in a KNNHook, test_dataloader or '
            'val_dataloader), so the size of the images must be given.'
        )
    return [
        LOAD if step['type'].endswith('LoadImageFromFile') else step
        for step in test.pipeline
    ]


def _datasets(cfg: Config) -> dict:
    """Configs of the training and the test set, or None where there is none."""
    hooks = [h for h in cfg.get('custom_hooks') or [] if h.type.endswith('KNNHook')]
    if hooks:
        return dict(train=hooks[0].train_dataset, test=hooks[0].test_dataset)
    test = cfg.get('test_dataloader') or cfg.get('val_dataloader')
    loaders = dict(train=cfg.get('train_dataloader'), test=test)
    return {name: loader and loader.dataset for name, loader in loaders.items()}


def loading_step(cfg: Config) -> dict:
    """The step that loads images as the config does, without missing any.

    That is ``mmbam.LoadImage`` with the channels, depth and bits of its first place in
    the config, or of its defaults.
    """
    places = [cfg.get(f'{name}_dataloader') for name in ('train', 'test', 'val')]
    for _, step in walk([*places, cfg.get('custom_hooks')]):
        kind = str(step.get('type')) if isinstance(step, dict) else ''
        if kind.rpartition('.')[2] == 'LoadImage':
            kept = ('channels', 'depth', 'bits', 'max_pixels')
            return {**LOAD, **{key: step[key] for key in kept if key in step}}
    return LOAD


def is_rgb(load: Mapping) -> bool:
    """Whether ``mmbam.LoadImage`` gives RGB of 8 bits with these arguments."""
    return load.get('channels', RGB) == RGB and load.get('depth', 8) == 8


def plain_pipeline(size: int, load: dict = LOAD) -> list[dict]:
    """Resize the shorter side to ``size`` pixels and crop the center."""
    if size < 1:
        raise InputError(f'size must be at least 1, but got {size}.')
    resize = dict(
        type='mmpretrain.ResizeEdge',
        scale=size,
        edge='short',
        backend='pillow',
        interpolation='bicubic',
    )
    return [
        load,
        resize if is_rgb(load) else dict(type='mmbam.ResizeShortSide', scale=size),
        dict(type='mmpretrain.CenterCrop', crop_size=size),
        dict(type='mmpretrain.PackInputs'),
    ]


def class_folders(root: str | Path, pipeline: list[dict]) -> dict:
    """Describe the data set of a folder with one folder per class, or of shards."""
    root = Path(root)
    if not root.is_dir():
        raise InputError(f'There is no folder {str(root)!r}.')
    if is_shards(root):
        return dataset_of(root, with_label=True, pipeline=pipeline)
    folders = [root / name for name in class_names(root)]
    if not folders:
        raise InputError(
            f'{str(root)!r} must hold one folder of images per class, but holds no '
            'folder.'
        )
    empty = [folder.name for folder in folders if not any(folder.iterdir())]
    if empty:
        raise InputError(
            f'Every class folder in {str(root)!r} must hold images, but these are '
            f'empty: {", ".join(empty)}.'
        )
    return dataset_of(root, with_label=True, pipeline=pipeline)


def _name(cfg: Config) -> str:
    return repr(cfg.filename) if cfg.filename else 'The config'
