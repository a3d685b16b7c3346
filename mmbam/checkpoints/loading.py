"""Load a backbone: all of its weights, or none and a reason."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import torch
from mmengine.logging import print_log
from mmpretrain.models.utils import resize_pos_embed
from torch import Tensor, nn

from mmbam.utils.errors import InputError

from .inflation import inflate_input
from .misfit import differences, summary
from .names import to_timm
from .origin import Origin, heads_of, origin_of
from .reading import read_checkpoint
from .selection import (
    Selected,
    below,
    complete_prefixes,
    find_backbone,
    is_head,
    source_of,
)


def load_backbone(
    backbone: nn.Module,
    path: str | Path,
    source: str = 'auto',
    inflate: str | None = None,
    prefix: str | None = None,
) -> str:
    """Load a backbone's weights from a checkpoint of any of the known projects.

    The weights of the backbone and those in the file must have the same names and
    shapes; otherwise nothing is loaded. Heads, necks, projectors and decoders in the
    file are ignored, and so is the final norm for a ViT that was built without one
    (``final_norm=False``). Position embeddings of another grid are resized. The log
    says what arrived, and warns if the file seems to come from a network with another
    number of heads, which no shape shows.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm.
        path (str | Path): The checkpoint; see :func:`read_weights`.
        source (str): ``'teacher'``, ``'student'`` or ``'auto'``; see
            :func:`select_backbone`. Defaults to ``'auto'``.
        inflate (str, optional): How weights for another number of bands become the
            backbone's, see :func:`inflate_input`. Defaults to None: they are refused.
        prefix (str, optional): What the names of the backbone's weights begin with in
            the file. Defaults to None: a known prefix, or the one that makes the
            backbone complete.

    Returns:
        str: Whose weights were loaded, ``'teacher'`` or ``'student'``.
    """
    weights, config, _ = read_checkpoint(path)
    expected = backbone.state_dict()
    found = _choose(weights, expected, path, source, prefix)
    fitted = _fit(found.weights, expected, backbone)
    inflate_input(fitted, expected, inflate)
    problems = differences(fitted, expected)
    if problems:
        raise InputError(
            f'The {found.source} in {str(path)!r} does not fit '
            f'{type(backbone).__name__}; {problems}; {summary(fitted, expected)}.'
        )
    backbone.load_state_dict({**expected, **fitted})
    _report(backbone, path, found, origin_of(weights, found.weights, config))
    return found.source


def _choose(
    weights: dict[str, Tensor],
    expected: dict[str, Tensor],
    path: str | Path,
    source: str,
    prefix: str | None,
) -> Selected:
    """Find the backbone's weights: below a prefix that is given, known, or complete."""
    found = find_backbone(weights, source, prefix)
    names = {to_timm(name) for name in expected}
    if prefix is not None or '' in complete_prefixes(found.weights, names):
        return found
    # A teacher that find_backbone passed over is a frozen one.
    others = [
        one for one in complete_prefixes(weights, names) if source_of(one) == 'student'
    ]
    if not others:
        return found
    if len(others) > 1:
        raise InputError(
            f'{str(path)!r} holds {len(others)} networks that fit, below '
            f'{" and ".join(others)}: name one as the prefix.'
        )
    return Selected(below(weights, others[0]), found.source, others[0])


def _fit(
    weights: dict[str, Tensor], expected: dict[str, Tensor], backbone: nn.Module
) -> dict[str, Tensor]:
    """Rename the weights to the backbone's names, without heads, and resize."""
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
    return fitted


def _report(
    backbone: nn.Module, path: str | Path, found: Selected, origin: Origin
) -> None:
    """Log what arrived from where, and warn of another number of heads."""
    heads = heads_of(backbone)
    where = [origin.name, found.source, found.prefix and f'below {found.prefix}']
    print_log(
        f'Loaded {path} ({", ".join(part for part in where if part)}): '
        f'{len(backbone.state_dict())} weights into {type(backbone).__name__}'
        f'{f" with {heads} heads" if heads else ""}.',
        'current',
    )
    if heads and origin.heads and heads != origin.heads:
        print_log(
            f'{path} seems to be of {origin.name}, whose network of this width has '
            f'{origin.heads} heads, but the config has {heads}: the weights fit, but '
            'give other features. Choose with --cfg-options: '
            'model.backbone.arch=deit-small has 6 heads, mocov3-small has 12, and '
            f'model.backbone.num_heads={origin.heads} sets them for a network of timm.',
            'current',
            logging.WARNING,
        )


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
    problems = differences(weights, expected)
    if problems:
        raise InputError(
            f'The weights in {str(path)!r} are not those of the '
            f'{type(model).__name__} in the config; {problems}.'
        )


def _not_needed(name: str, backbone: nn.Module) -> bool:
    """Whether a backbone may do without a weight, by the weight's name in timm."""
    without_norm = getattr(backbone, 'final_norm', True) is False
    return is_head(name) or (without_norm and name.startswith('norm.'))


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
