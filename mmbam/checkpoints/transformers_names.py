"""Names of the ViTs of Hugging Face's transformers (ViT, MAE, DINO, DINOv2)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

_EMBEDDINGS = 'embeddings.patch_embeddings.projection.weight'
_TOP = {
    'embeddings.cls_token': 'cls_token',
    'embeddings.position_embeddings': 'pos_embed',
    'embeddings.mask_token': 'mask_token',
    'embeddings.register_tokens': 'register_tokens',
    'embeddings.patch_embeddings.projection.': 'patch_embed.proj.',
    'layernorm.': 'norm.',
}
# Inside of a block, longer names first.
_BLOCK = {
    'attention.attention.query.': 'attn.q.',
    'attention.attention.key.': 'attn.k.',
    'attention.attention.value.': 'attn.v.',
    'attention.output.dense.': 'attn.proj.',
    'intermediate.dense.': 'mlp.fc1.',
    'output.dense.': 'mlp.fc2.',
    'layernorm_before.': 'norm1.',
    'layernorm_after.': 'norm2.',
    'layer_scale1.lambda1': 'ls1.gamma',
    'layer_scale2.lambda1': 'ls2.gamma',
}


def from_transformers(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the weights of a ViT of transformers their names in timm.

    Queries, keys and values, which transformers keeps apart, are joined. Weights of
    other libraries stay as they are.

    Args:
        weights (Mapping[str, Tensor]): All weights of a checkpoint.
    """
    fronts = [
        name[: -len(_EMBEDDINGS)] for name in weights if name.endswith(_EMBEDDINGS)
    ]
    if len(fronts) != 1:
        return dict(weights)
    renamed = {_to_timm(name.removeprefix(fronts[0])): w for name, w in weights.items()}
    for name in list(renamed):
        parts = [name.replace('.q.', f'.{part}.') for part in 'qkv']
        if '.attn.q.' in name and len({_shape(renamed, part) for part in parts}) == 1:
            joined = torch.cat([renamed.pop(part) for part in parts])
            renamed[name.replace('.q.', '.qkv.')] = joined
    return renamed


def _to_timm(name: str) -> str:
    block = re.match(r'encoder\.layer\.(\d+)\.', name)
    rest = name[block.end() :] if block else name
    for old, new in (_BLOCK if block else _TOP).items():
        if rest.startswith(old):
            rest = new + rest[len(old) :]
            break
    return f'blocks.{block[1]}.{rest}' if block else rest


def _shape(weights: Mapping[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(weights[name].shape) if name in weights else None
