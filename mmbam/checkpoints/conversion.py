"""Convert the weights of one library for another."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from mmbam.utils.errors import InputError
from mmbam.utils.files import require_writable, save_safetensors, save_tensors

from .names import to_mmpretrain, to_timm
from .reading import read_weights
from .selection import is_head, select_backbone

FORMATS = ('mmpretrain', 'timm', 'release')


def convert_checkpoint(
    path: str | Path,
    out: str | Path,
    to: str,
    source: str = 'auto',
    prefix: str | None = None,
) -> dict[str, Tensor]:
    """Convert a backbone between this project, the authors' release and timm.

    Works for ViT, ResNet, CAFormer and any other network of mmpretrain's TIMMBackbone.
    Weights of heads, necks and projectors are left out.

    Args:
        path (str | Path): A checkpoint of any of the three; see :func:`read_weights`.
        out (str | Path): The file to write, one of safetensors if its name ends so.
        to (str): ``'mmpretrain'``: ``state_dict`` with ``backbone.*``, as this project
            and OpenMMLab's ``init_cfg`` read it. ``'timm'``: a plain state dict with
            timm's names. ``'release'``: timm's names with the prefix
            ``teacher.backbone.`` or ``student.backbone.``.
        source (str): ``'teacher'``, ``'student'`` or ``'auto'``; see
            :func:`select_backbone`. Defaults to ``'auto'``.
        prefix (str, optional): What the names of the backbone's weights begin with in
            the file. Defaults to None: a known prefix, or none.

    Returns:
        dict[str, Tensor]: The weights as they were written.
    """
    if to not in FORMATS:
        raise InputError(f'to must be one of {FORMATS}, but got {to!r}.')
    require_writable(out, path)
    weights, source = select_backbone(read_weights(path), source, prefix)
    # CAFormer's final norm is part of its features, but in timm part of the head.
    weights = {
        name: value.clone(memory_format=torch.contiguous_format)
        for name, value in weights.items()
        if not is_head(to_timm(name)) or to_timm(name).startswith('head.norm.')
    }
    if to == 'mmpretrain':
        names = to_mmpretrain(weights)
        converted = {f'backbone.{names[name]}': weights[name] for name in weights}
    else:
        prefix = '' if to == 'timm' else f'{source}.backbone.'
        converted = {prefix + to_timm(name): weights[name] for name in weights}
    if not converted:
        raise InputError(f'The {source} in {str(path)!r} has no backbone to convert.')
    if Path(out).suffix == '.safetensors':
        save_safetensors(converted, out, dict(format='pt'))
    else:
        nested = dict(state_dict=converted, meta={})
        save_tensors(nested if to == 'mmpretrain' else converted, out)
    return converted
