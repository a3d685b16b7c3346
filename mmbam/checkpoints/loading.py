"""Load a backbone: all of its weights, or none and a reason."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from mmpretrain.models.utils import resize_pos_embed
from torch import Tensor, nn

from mmbam.utils.errors import InputError

from .inflation import inflate_input
from .names import to_timm
from .reading import read_weights
from .selection import is_head, select_backbone


def load_backbone(
    backbone: nn.Module,
    path: str | Path,
    source: str = 'auto',
    inflate: str | None = None,
) -> str:
    """Load a backbone's weights from a checkpoint of ours, the authors' or timm.

    The weights of the backbone and those in the file must have the same names and
    shapes; otherwise nothing is loaded. Heads, necks and projectors in the file are
    ignored, and so is the final norm for a ViT that was built without one
    (``final_norm=False``). Position embeddings of another grid are resized.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm.
        path (str | Path): The checkpoint; see :func:`read_weights`.
        source (str): ``'teacher'``, ``'student'`` or ``'auto'``; see
            :func:`select_backbone`. Defaults to ``'auto'``.
        inflate (str, optional): How weights for another number of bands become the
            backbone's, see :func:`inflate_input`. Defaults to None: they are refused.

    Returns:
        str: Whose weights were loaded, ``'teacher'`` or ``'student'``.
    """
    weights, source = select_backbone(read_weights(path), source)
    expected = backbone.state_dict()
    # Both sides by their names in timm, so that either may be of either library.
    places = {to_timm(name): name for name in expected}
    fitted = {}
    for name, value in weights.items():
        place = places.get(to_timm(name), name)
        if place not in expected and _not_needed(to_timm(name), backbone):
            continue
        if place in expected and place.split('.')[-1] == 'pos_embed':
            value = _fit_position_embedding(value, expected[place], backbone)
        fitted[place] = value
    inflate_input(fitted, expected, inflate)
    differences = _differences(fitted, expected)
    if differences:
        raise InputError(
            f'The {source} in {str(path)!r} does not fit {type(backbone).__name__}; '
            f'{differences}.'
        )
    backbone.load_state_dict({**expected, **fitted})
    return source


def require_fit(
    model: nn.Module, weights: dict[str, Tensor], path: str | Path, heads: bool = True
) -> None:
    """Refuse weights that mmengine would load in part, with warnings.

    Args:
        model (nn.Module): The model that is to get the weights.
        weights (dict[str, Tensor]): All weights of a checkpoint.
        path (str | Path): Name of the checkpoint, for the error.
        heads (bool): Whether the weights of heads must fit, too. Defaults to True.
    """
    expected = model.state_dict()
    if not heads:
        weights, expected = (
            {n: w for n, w in some.items() if not n.split('.')[0].endswith('head')}
            for some in (weights, expected)
        )
    differences = _differences(weights, expected)
    if differences:
        raise InputError(
            f'The weights in {str(path)!r} are not those of the '
            f'{type(model).__name__} in the config; {differences}.'
        )


def _not_needed(name: str, backbone: nn.Module) -> bool:
    """Whether a backbone may do without a weight, by the weight's name in timm."""
    without_norm = getattr(backbone, 'final_norm', True) is False
    return is_head(name) or (without_norm and name.startswith('norm.'))


def _differences(weights: dict[str, Tensor], expected: dict[str, Tensor]) -> str:
    """What keeps weights from being loaded; empty if nothing does."""
    lists = {
        'missing': [
            name
            for name in expected
            # A counter that old files lack and that no output depends on.
            if name not in weights and not name.endswith('num_batches_tracked')
        ],
        'left over': [name for name in weights if name not in expected],
        'of another shape': [
            f'{name} {tuple(value.shape)} for {tuple(expected[name].shape)}'
            for name, value in weights.items()
            if name in expected and value.shape != expected[name].shape
        ],
    }
    return '; '.join(f'{k}: {_some(names)}' for k, names in lists.items() if names)


def _some(names: list[str], most: int = 4) -> str:
    shown = ', '.join(names[:most])
    return shown if len(names) <= most else f'{shown} and {len(names) - most} more'


def _fit_position_embedding(
    value: Tensor, expected: Tensor, backbone: nn.Module
) -> Tensor:
    """Resize to the backbone's grid, or return the value if that is impossible."""
    network = getattr(backbone, 'timm_model', backbone)
    patches = getattr(network, 'patch_embed', None)
    # mmpretrain's and timm's name for the height and width in patches.
    grid = getattr(patches, 'init_out_size', getattr(patches, 'grid_size', None))
    if grid is None or value.dim() != 3 or value.shape[-1] != expected.shape[-1]:
        return value
    wanted = expected.shape[1] - grid[0] * grid[1]
    # Number of tokens such as [cls] before the positions, whose grid is square.
    for extra in dict.fromkeys((wanted, 1, 0, 2)):
        side = math.isqrt(max(value.shape[1] - extra, 0))
        if side and side * side + extra == value.shape[1]:
            break
    else:
        return value
    tokens, positions = value[:, :extra], value[:, extra:]
    if extra > wanted:
        tokens = tokens[:, :wanted]
    elif extra < wanted:  # a token without a position had zeros added
        zeros = value.new_zeros(1, wanted - extra, value.shape[-1])
        tokens = torch.cat([tokens, zeros], dim=1)
    mode = getattr(backbone, 'interpolate_mode', 'bicubic')
    positions = resize_pos_embed(positions, (side, side), tuple(grid), mode, 0)
    return torch.cat([tokens, positions], dim=1)
