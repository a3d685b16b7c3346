"""Where a file comes from, as far as it shows, and the heads of its attention.

Shapes do not show the number of heads: a ViT-S has 6 in timm, DINO and DINOv2 and 12 in
MoCo v3 and BAM, and weights of one fit into the other and give other features.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mmpretrain.models.backbones import VisionTransformer
from torch import Tensor, nn

from .names import to_timm

#: Origins that are methods of training.
METHODS = ('BAM', 'MoCo v3', 'MoCo', 'MAE', 'iBOT', 'DINO', 'DINOv2')
_TIMM_HEADS = {192: 3, 384: 6, 768: 12, 1024: 16}
_MOCO_HEADS = {**_TIMM_HEADS, 384: 12}
_QKV = re.compile(r'blocks\.\d+\.attn\.qkv\.weight$')


class Origin(NamedTuple):
    """The project that a file seems to come from, and the heads of its network.

    ``heads`` is None where the file does not show them.
    """

    name: str
    heads: int | None


def origin_of(
    names: Iterable[str], backbone: Mapping[str, Tensor], config: Mapping[str, Any]
) -> Origin:
    """Tell where a file comes from by the names in it and by its own config.

    Args:
        names (Iterable[str]): Names of all weights in the file.
        backbone (Mapping[str, Tensor]): The backbone's weights, without their prefix.
        config (Mapping): Config in the file or beside it; empty if there is none.
    """
    width = _width(backbone)
    model = config.get('model')
    if isinstance(model, Mapping):
        name = model.get('type')
        in_config = _heads_in_mmengine(model) if width else None
        return Origin(name if isinstance(name, str) else 'mmengine', in_config)
    if 'architecture' in config or 'architectures' in config:
        return Origin('Hugging Face', _heads_in_json(config, width) if width else None)
    text = '\n'.join(names)
    ours = any(name.startswith('layers.') for name in backbone)
    for words, project, heads in (
        (r'(base|momentum)_encoder\.', 'MoCo v3', _MOCO_HEADS),
        (r'encoder_[qk]\.', 'MoCo', _TIMM_HEADS),
        (r'^(decoder_embed|decoder_blocks)\b', 'MAE', _TIMM_HEADS),
        (r'masked_embed$', 'iBOT', _TIMM_HEADS),
        (r'head\.last_layer', 'DINO', _TIMM_HEADS),
        (r'^mask_token$|dino_head\.', 'DINOv2', _TIMM_HEADS),
    ):
        if re.search(words, text, re.MULTILINE) and not ours:
            return Origin(project, heads.get(width) if width else None)
    if re.search(r'^(student|teacher)\.backbone\.', text, re.MULTILINE):
        return Origin('BAM', _MOCO_HEADS.get(width) if width else None)
    if ours:
        return Origin('mmpretrain', None)
    return Origin('timm', _TIMM_HEADS.get(width)) if width else Origin('', None)


def heads_of(network: nn.Module) -> int | None:
    """Number of heads in the last block of a ViT, or None for other networks."""
    heads = [
        module.num_heads
        for module in network.modules()
        if isinstance(getattr(module, 'num_heads', None), int)
        and hasattr(module, 'qkv')
    ]
    return heads[-1] if heads else None


def _width(backbone: Mapping[str, Tensor]) -> int | None:
    """Width of a ViT, or None for other networks."""
    for name, value in backbone.items():
        if _QKV.match(to_timm(name)) and value.dim() == 2:
            return value.shape[1]
    return None


def _heads_in_mmengine(model: Mapping[str, Any]) -> int | None:
    backbone = model.get('backbone')
    arch = backbone.get('arch') if isinstance(backbone, Mapping) else None
    if isinstance(arch, str):
        known = {'mocov3-s': _MOCO_HEADS[384], 'mocov3-small': _MOCO_HEADS[384]}
        zoo = VisionTransformer.arch_zoo
        return known.get(arch) or zoo.get(arch, {}).get('num_heads')
    return _whole(arch, 'num_heads')


def _heads_in_json(config: Mapping[str, Any], width: int) -> int | None:
    return (
        _whole(config, 'num_attention_heads')
        or _whole(config.get('model_args'), 'num_heads')
        or _TIMM_HEADS.get(width)
    )


def _whole(values: Any, key: str) -> int | None:
    value = values.get(key) if isinstance(values, Mapping) else None
    return value if isinstance(value, int) else None
