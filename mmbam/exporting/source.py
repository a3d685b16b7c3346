"""The backbone to export, and what is known of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from mmpretrain.models.backbones import VisionTransformer
from torch import Tensor, nn

from mmbam.checkpoints import load_backbone
from mmbam.checkpoints.origin import METHODS, origin_of
from mmbam.checkpoints.reading import read_checkpoint
from mmbam.checkpoints.trust import stored_backbone, without_loading
from mmbam.models.backbones.anatomy import patch_size
from mmbam.models.backbones.timm_embedding import timm_config
from mmbam.utils.config import build_errors, read_config
from mmbam.utils.errors import InputError, input_errors
from mmbam.utils.files import sha256
from mmbam.version import __version__

from .features import reference

# What is read of such a config.
_KEYS = ('model', 'data_preprocessor', 'train_dataloader', 'optim_wrapper', 'train_cfg')
REFUSALS = (InputError, AssertionError, ValueError, RuntimeError)


@dataclass
class Source:
    """A backbone with its weights.

    Args:
        backbone (nn.Module): The backbone, on the CPU, in evaluation mode.
        cfg (dict): Config of the backbone.
        size (int): Side of the images in pixels.
        facts (dict): What is known of the training, as plain values.
        images (list[Tensor]): Two batches of images of different sizes, or of one if
            the network takes no other.
        expected (list): Embedding and map of each batch.
    """

    backbone: nn.Module
    cfg: dict
    size: int
    facts: dict[str, Any]
    images: list[Tensor] = field(default_factory=list)
    expected: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    @property
    def dynamic(self) -> bool:
        """Whether the network takes images of more than one size."""
        return len({batch.shape[-2:] for batch in self.images}) > 1

    def fixed(self) -> Source:
        """Return the source with images of one size alone, in two batch sizes."""
        images = [_noise(number, self.size) for number in (1, 3)]
        return Source(
            self.backbone, self.cfg, self.size, self.facts, *self._run(images)
        )

    def with_images(self) -> Source:
        """Return the source with images of two sizes, if it takes two."""
        step = patch_size(self.backbone)
        step *= max(2, 32 // step)
        images = [_noise(2, self.size), _noise(3, self.size + step)]
        try:
            run = self._run(images)
        except REFUSALS:
            return self.fixed()
        return Source(self.backbone, self.cfg, self.size, self.facts, *run)

    def _run(self, images: list[Tensor]) -> tuple[list, list]:
        return images, [reference(self.backbone, batch) for batch in images]


def load_source(
    checkpoint: str | Path,
    config: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    source: str = 'auto',
    size: int | None = None,
    prefix: str | None = None,
    model: str | None = None,
) -> Source:
    """Build the backbone of a checkpoint and load its weights.

    Args:
        checkpoint (str | Path): See :func:`mmbam.checkpoints.load_backbone`.
        config (str | Path, optional): Config with ``model.backbone``. Defaults to None,
            the one in the checkpoint, which is read as data.
        options (Mapping, optional): Values to set in the config, by dotted keys.
        source (str): ``'teacher'``, ``'student'`` or ``'auto'``. Defaults to
            ``'auto'``.
        size (int, optional): Side of the images in pixels. Defaults to None, the
            network's own or 224.
        prefix (str, optional): See :func:`mmbam.checkpoints.load_backbone`.
        model (str, optional): Name of a network in timm to take in place of a config.
    """
    if config is not None and model is not None:
        raise InputError('--config and --model exclude each other: give one of them.')
    weights, stored, meta = read_checkpoint(checkpoint)
    architecture = model or stored.get('architecture')
    if config is not None:
        cfg = read_config(str(config), options)
    else:
        if isinstance(architecture, str):
            cfg = timm_config(architecture, {} if model else stored, size)
        else:
            found = {key: stored[key] for key in _KEYS if key in stored}
            backbone_cfg = stored_backbone(stored, checkpoint)
            if backbone_cfg is not None:
                found['model'] = dict(stored['model'], backbone=backbone_cfg)
            cfg = Config(found)
        for key, value in (options or {}).items():
            cfg.merge_from_dict({key: value})
    name = repr(str(config or checkpoint))
    if not _part(_part(cfg, 'model'), 'backbone'):
        raise InputError(
            f'{name} has no config with a model.backbone: name one with --config, or a '
            'network of timm with --model.'
        )
    init_default_scope(cfg.get('default_scope') or 'mmpretrain')
    # Its weights come from the checkpoint.
    backbone_cfg = without_loading(cfg.model.backbone.to_dict())
    with build_errors(of=name), input_errors((ValueError, RuntimeError), of=name):
        backbone = MODELS.build(dict(backbone_cfg))
        if size is not None and native_size(backbone) not in (None, size):
            backbone_cfg['img_size'] = size
            backbone = MODELS.build(dict(backbone_cfg))
    role = load_backbone(backbone, checkpoint, source, prefix=prefix)
    backbone.requires_grad_(False)
    backbone.eval()  # returns nothing for some of mmpretrain's
    side = size or native_size(backbone) or 224
    if side < 1:
        raise InputError(f'size must be at least 1, but got {size}.')
    origin = origin_of(weights, weights, stored).name
    facts = _facts(cfg, stored, meta, origin, Path(checkpoint), role)
    return Source(backbone, backbone_cfg, side, facts).with_images()


def _noise(number: int, size: int) -> Tensor:
    generator = torch.Generator().manual_seed(size)
    return torch.randn(number, 3, size, size, generator=generator)


def native_size(backbone: nn.Module) -> int | None:
    """Side of the images that a network with positions is made for, or None."""
    if isinstance(backbone, VisionTransformer):
        return backbone.img_size[0]
    network = getattr(backbone, 'timm_model', None)
    sizes = getattr(getattr(network, 'patch_embed', None), 'img_size', None)
    return sizes[0] if sizes else None


def _facts(
    cfg: Config, stored: Mapping, meta: Mapping, origin: str, path: Path, role: str
) -> dict[str, Any]:
    """What is known of the network and its training; no paths of a machine.

    Of the training only the checkpoint itself tells: a config that was given beside it
    may be for another one.
    """
    preprocessor = _part(cfg.model, 'data_preprocessor')
    preprocessor = preprocessor or _part(cfg, 'data_preprocessor')
    loader = _part(stored, 'train_dataloader')
    optimizer = _part(_part(stored, 'optim_wrapper'), 'optimizer')
    method = str(_part(stored, 'model').get('type', '')).rpartition('.')[2]
    found = dict(
        method=method or (origin if origin in METHODS else ''),
        network=_network(cfg.model.backbone),
        weights=role,
        data=_data(_part(loader, 'dataset')),
        epochs=meta.get('epoch'),
        iterations=meta.get('iter'),
        planned_epochs=_part(stored, 'train_cfg').get('max_epochs'),
        images_per_device=loader.get('batch_size'),
        optimizer=optimizer.get('type'),
        learning_rate=optimizer.get('lr'),
        mean=_numbers(preprocessor.get('mean')),
        std=_numbers(preprocessor.get('std')),
        channels='RGB' if preprocessor.get('to_rgb', True) else 'BGR',
        checkpoint=path.name,
        checkpoint_sha256=sha256(path) if path.is_file() else None,
        mmbam=__version__,
    )
    numbers = ('mean', 'std')
    return {
        key: value
        for key, value in found.items()
        if _plain(value) and (key in numbers or not isinstance(value, list))
    }


def _part(content: Any, key: str) -> Mapping:
    """A dict in a config or dict; an empty one if there is none."""
    content = content._cfg_dict if isinstance(content, Config) else content
    part = content.get(key) if isinstance(content, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _network(cfg: Mapping) -> str:
    if isinstance(cfg.get('model_name'), str):
        return f'{cfg["model_name"]} of timm'
    kind = str(cfg.get('type', '')).rpartition('.')[2]
    which = cfg.get('arch', cfg.get('depth', ''))
    which = which if isinstance(which, (str, int)) else 'of a size of its own'
    return f'{kind} {which}'.strip()


def _data(cfg: Mapping) -> str:
    kind = str(cfg.get('type', '')).rpartition('.')[2]
    folder = Path(str(cfg.get('data_root') or '')).name
    return f'{folder} ({kind})' if folder else kind


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, list)) and value not in ('', [])


def _numbers(value: Any) -> list[float]:
    known = isinstance(value, (list, tuple))
    return (
        [float(one) for one in value if isinstance(one, (int, float))] if known else []
    )
