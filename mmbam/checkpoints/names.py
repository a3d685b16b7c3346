"""Names of the weights of a network in timm and in mmpretrain."""

from __future__ import annotations

import re
from collections.abc import Iterable

# mmpretrain's VisionTransformer beside timm's. ResNets have the same names in both, and
# other networks run in mmpretrain through TIMMBackbone, which adds a prefix.
_VIT = [
    ('patch_embed.projection.', 'patch_embed.proj.'),
    ('pre_norm.', 'norm_pre.'),
    ('ln1.', 'norm.'),
    ('ln2.', 'fc_norm.'),
]
_VIT_BLOCK = [
    ('ln1.', 'norm1.'),
    ('ln2.', 'norm2.'),
    ('attn.gamma1.weight', 'ls1.gamma'),
    ('ffn.gamma2.weight', 'ls2.gamma'),
    ('attn.', 'attn.'),
    ('ffn.layers.0.0.', 'mlp.fc1.'),
    ('ffn.layers.1.', 'mlp.fc2.'),
]
TIMM_PREFIX = 'timm_model.'


def to_timm(name: str) -> str:
    """Name in timm of a weight of a backbone; timm's own names stay as they are."""
    name = name.removeprefix(TIMM_PREFIX)
    # With features_only, timm names its stages like this.
    name = re.sub(r'^(stages)_(\d+)\.', r'\1.\2.', name)
    # DINOv2 trains its blocks in chunks; iBOT has another name for layer scale.
    name = re.sub(r'^blocks\.\d+\.(\d+)\.', r'blocks.\1.', name)
    name = re.sub(r'^(blocks\.\d+\.)gamma_([12])$', r'\1ls\2.gamma', name)
    block = re.match(r'layers\.(\d+)\.', name)
    if block:
        rest = _swap(name[block.end() :], _VIT_BLOCK)
        return name if rest is None else f'blocks.{block[1]}.{rest}'
    return _swap(name, _VIT) or name


def to_mmpretrain(names: Iterable[str]) -> dict[str, str]:
    """Names in mmpretrain of all weights of a backbone.

    Args:
        names (Iterable[str]): Names of timm or of mmpretrain.

    Returns:
        dict[str, str]: From each given name to mmpretrain's.
    """
    timm = {name: to_timm(name) for name in names}
    if any(re.match(r'layer\d\.\d+\.', name) for name in timm.values()):  # ResNet
        return timm
    if not any(re.match(r'blocks\.\d+\.attn\.', name) for name in timm.values()):
        return {name: TIMM_PREFIX + new for name, new in timm.items()}
    return {name: _vit_to_mmpretrain(new) for name, new in timm.items()}


def _vit_to_mmpretrain(name: str) -> str:
    block = re.match(r'blocks\.(\d+)\.', name)
    if block:
        rest = _swap(name[block.end() :], [(timm, mm) for mm, timm in _VIT_BLOCK])
        return name if rest is None else f'layers.{block[1]}.{rest}'
    return _swap(name, [(timm, mm) for mm, timm in _VIT]) or name


def _swap(name: str, table: list[tuple[str, str]]) -> str | None:
    for old, new in table:
        if name.startswith(old):
            return new + name[len(old) :]
    return None
