"""A frozen network and the data to try it on, from a config and a checkpoint."""

from __future__ import annotations

from pathlib import Path

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import MODELS, init_default_scope
from torch import nn

from mmbam.checkpoints import load_backbone


def build_frozen(
    cfg: Config, checkpoint: str | Path | None, source: str = 'auto'
) -> tuple[nn.Module, nn.Module]:
    """Build the backbone of a config with the weights of a checkpoint.

    Args:
        cfg (Config): Any config of this project or of mmpretrain with
            ``model.backbone``.
        checkpoint (str | Path, optional): What to load, strictly. None leaves the
            network at its random initialisation.
        source (str): ``'teacher'``, ``'student'`` or ``'auto'``; see
            :func:`mmbam.checkpoints.select_backbone`. Defaults to ``'auto'``.

    Returns:
        tuple[nn.Module, nn.Module]: The backbone, and the preprocessor of its images.
    """
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    model = cfg.get('model') or {}
    if 'backbone' not in model:
        raise ValueError(f'{_name(cfg)} has no model.backbone to evaluate.')
    preprocessor = model.get('data_preprocessor') or cfg.get('data_preprocessor')
    if preprocessor is None:
        raise ValueError(
            f'{_name(cfg)} has no data_preprocessor, which the backbone needs to see '
            'images as in training.'
        )
    # mmpretrain's models fill in the type; at test time those they choose are alike.
    preprocessor = MODELS.build(
        {'type': 'mmpretrain.ClsDataPreprocessor', **preprocessor}
    )
    backbone = MODELS.build(model.backbone)
    if checkpoint is None:
        backbone.init_weights()
    else:
        load_backbone(backbone, checkpoint, source)
    device = get_device()
    backbone.to(device).eval()
    return backbone, preprocessor.to(device)


def evaluation_datasets(
    cfg: Config,
    train: str | Path | None = None,
    test: str | Path | None = None,
    size: int | None = None,
) -> tuple[dict, dict]:
    """Training and test set of an evaluation on frozen features.

    They are those of the config's KNNHook if it has one, else of its training and its
    test (or validation) loader, the training set seen through the test pipeline.

    Args:
        cfg (Config): A config of this project or of mmpretrain.
        train (str | Path, optional): A folder of class folders to take instead of the
            config's training set. Defaults to None.
        test (str | Path, optional): The same for the test set. Defaults to None.
        size (int, optional): See all images as a crop of this size from the middle,
            after a resize of the shorter side to it. Defaults to None: the config's
            test pipeline.

    Returns:
        tuple[dict, dict]: Configs of the training and of the test set.
    """
    hooks = [h for h in cfg.get('custom_hooks') or [] if h.type.endswith('KNNHook')]
    if hooks:
        sets = [hooks[0].train_dataset, hooks[0].test_dataset]
    else:
        tests = cfg.get('test_dataloader') or cfg.get('val_dataloader')
        sets = [
            loader and loader.dataset for loader in (cfg.get('train_dataloader'), tests)
        ]
    if size is not None:
        pipeline = plain_pipeline(size)
    else:
        pipeline = sets[1] and sets[1].get('pipeline')
        if pipeline is None:
            raise ValueError(
                f'{_name(cfg)} has no test pipeline (in a KNNHook, test_dataloader or '
                'val_dataloader), so the size of the images must be given.'
            )
    result = []
    for which, folder, dataset in zip(('training', 'test'), (train, test), sets):
        if folder is not None:
            result.append(class_folders(folder, pipeline))
        elif dataset is None:
            raise ValueError(
                f'{_name(cfg)} has no {which} set with labels (in a KNNHook or a '
                'loader): give a folder of class folders.'
            )
        else:
            result.append({**dataset, 'pipeline': pipeline})
    return tuple(result)


def plain_pipeline(size: int) -> list[dict]:
    """The middle of an image, its shorter side resized to ``size``."""
    return [
        dict(type='mmpretrain.LoadImageFromFile'),
        dict(
            type='mmpretrain.ResizeEdge',
            scale=size,
            edge='short',
            backend='pillow',
            interpolation='bicubic',
        ),
        dict(type='mmpretrain.CenterCrop', crop_size=size),
        dict(type='mmpretrain.PackInputs'),
    ]


def class_folders(root: str | Path, pipeline: list[dict]) -> dict:
    """Config of the data set in a folder that holds one folder per class.

    Args:
        root (str | Path): The folder.
        pipeline (list[dict]): Transforms of its images.

    Returns:
        dict: Config of an ``mmpretrain.CustomDataset``.
    """
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f'There is no folder {str(root)!r}.')
    if not any(child.is_dir() for child in root.iterdir()):
        raise ValueError(
            f'{str(root)!r} must hold one folder of images per class, but holds no '
            'folder.'
        )
    empty = [
        d.name for d in sorted(root.iterdir()) if d.is_dir() and not any(d.iterdir())
    ]
    if empty:
        raise ValueError(
            f'Every class folder in {str(root)!r} must hold images, but these are '
            f'empty: {", ".join(empty)}.'
        )
    return dict(type='mmpretrain.CustomDataset', data_root=str(root), pipeline=pipeline)


def _name(cfg: Config) -> str:
    return repr(cfg.filename) if cfg.filename else 'The config'
