"""Networks by the names that ``--model`` takes, and the model around one."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mmengine.config import Config
from mmengine.registry import MODELS
from mmpretrain.models.backbones import ResNet
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mmbam.models.backbones.anatomy import embedding_width, has_cls_token, patch_size
from mmbam.utils.config import build_errors
from mmbam.utils.errors import InputError, input_errors
from mmbam.utils.model import takes_channels_last

from . import numbers
from .names import NAMES, RESNETS, TIMM, VITS
from .views import PREPROCESSOR


@dataclass
class Network:
    """A backbone, and what a recipe must know of it.

    Args:
        config (dict): Config of the backbone.
        width (int): Width of the embedding.
        patch (int): Side of the patches in pixels, 1 without patches.
        batch_norm (bool): Whether it has batch norm.
        cls_token (bool): Whether it has a [cls] token.
        channels_last (bool): Whether torch's channels-last memory format helps.
    """

    config: dict
    width: int
    patch: int
    batch_norm: bool
    cls_token: bool
    channels_last: bool

    @property
    def is_resnet(self) -> bool:
        """Whether it is a ResNet, which the paper trains in another way."""
        return str(self.config['type']).rpartition('.')[2].startswith('ResNet')


def check_name(name: str) -> None:
    """Refuse a name that is none of :data:`NAMES` and no network of timm."""
    if name in NAMES:
        return
    if name.startswith(TIMM):
        import timm  # takes a second

        wanted, known = name[len(TIMM) :], timm.list_models()
        if wanted in known or wanted in timm.list_pretrained():
            return
        near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
        hint = f', but it has {", ".join(near)}' if near else ''
        raise InputError(f'timm has no network {wanted!r}{hint}.')
    import timm

    bare = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.6)
    near = [*bare] + [
        TIMM + other
        for other in difflib.get_close_matches(name, timm.list_models(), n=3)
    ]
    hint = f' Did you mean {" or ".join(near)}?' if near else ''
    raise InputError(
        f'The model must be one of {", ".join(NAMES)}, or {TIMM}NAME for a network of '
        f'timm, but got {name!r}.{hint}'
    )


def patch_of(name: str) -> int:
    """Side of the patches that a network cuts its images into, 1 without patches."""
    if name in VITS:
        return 16
    return _facts_of_timm(name[len(TIMM) :])[1] if name.startswith(TIMM) else 1


def build_network(name: str, size: int, options: Mapping[str, Any] = {}) -> Network:  # noqa: B006
    """Build a backbone for views of a size, to ask it what a recipe must know.

    Args:
        name (str): One of :data:`NAMES`, or ``timm:NAME``.
        size (int): Height and width of the global views.
        options (Mapping): Changes by keys such as ``model.backbone.base_channels``.
    """
    cfg = Config(dict(model=dict(backbone=_config(name, size))))
    prefix = 'model.backbone.'
    own = {key: value for key, value in options.items() if key.startswith(prefix)}
    cfg.merge_from_dict(own)
    config = cfg.to_dict()['model']['backbone']
    network = _build(config)
    with input_errors(of=name):
        width = embedding_width(network, size)
    return Network(
        config,
        width,
        patch_size(network),
        any(isinstance(module, _BatchNorm) for module in network.modules()),
        has_cls_token(network),
        isinstance(network, ResNet) and takes_channels_last(network),
    )


def _config(name: str, size: int) -> dict:
    if name in RESNETS:
        config = dict(
            type='mmpretrain.ResNet',
            depth=RESNETS[name],
            # Blocks that start as the identity need a longer run.
            zero_init_residual=False,
        )
        if size <= numbers.SMALL_VIEW:
            config['type'] = 'mmpretrain.ResNet_CIFAR'
        return config
    if name in VITS:
        return dict(
            type='mmbam.ClsViT',
            arch=VITS[name],
            img_size=size,
            patch_size=16,
            stop_grad_conv1=True,
            out_type='cls_token',
        )
    if name == 'caformer-m36':
        return dict(type='mmbam.CAFormer', arch='m36')
    wanted = name[len(TIMM) :]
    options, _ = _facts_of_timm(wanted)
    return dict(type='mmpretrain.TIMMBackbone', model_name=wanted, **options)


@functools.lru_cache(maxsize=4)
def _facts_of_timm(name: str) -> tuple[dict, int]:
    """Arguments that a network of timm needs, and the side of its patches."""
    config = dict(type='mmpretrain.TIMMBackbone', model_name=name)
    # ViTs of timm take images of one size, unless told otherwise.
    options = dict(dynamic_img_size=True)
    try:
        network = MODELS.build(dict(config, **options))
    except TypeError:
        options, network = {}, _build(config)
    return options, patch_size(network)


def _build(config: dict) -> nn.Module:
    with build_errors(), input_errors((ValueError, RuntimeError)):
        return MODELS.build(config)


def model_config(
    network: Network,
    widths: tuple[int, int, int],
    act: str,
    norm: dict | None,
    num_views: int,
    tau_b: float,
    teacher: dict | None,
) -> dict:
    """Write the config of the whole model.

    ``widths`` are those into the projector, within, and out of it; ``act`` and ``norm``
    are its own.
    """
    return dict(
        type='mmbam.BAM',
        backbone=network.config,
        neck=dict(
            type='mmbam.BAMNeck',
            in_channels=widths[0],
            hid_channels=widths[1],
            out_channels=widths[2],
            num_layers=3,
            act_cfg=dict(type=act),
            norm_cfg=norm,
        ),
        head=dict(
            type='mmbam.BAMHead',
            loss=dict(
                type='mmbam.BAMLoss',
                num_views=num_views,
                num_target_views=2,
                tau=numbers.TAU,
                tau_b=tau_b,
                sinkhorn_iters=3,
            ),
        ),
        teacher=teacher,
        data_preprocessor=PREPROCESSOR,
        channels_last=network.channels_last,
    )
