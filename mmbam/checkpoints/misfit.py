"""What keeps weights from being loaded into a network, and the most likely reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from torch import Tensor

from .names import to_timm

_BLOCK = re.compile(r'(blocks\.\d+|layer\d+\.\d+|stages\.\d+\.blocks\.\d+)\.')
_REGISTERS = ('register_tokens', 'reg_token', 'storage_tokens')
# Weights of the first layer: patches of a ViT, the stem of a CNN.
_FIRST = ('patch_embed.proj.weight', 'conv1.weight', 'stem.conv.weight')


def differences(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """Tell what keeps weights from being loaded; empty if nothing does.

    Args:
        weights (Mapping[str, Tensor]): Weights by the names that the network has.
        expected (Mapping[str, Tensor]): State dict of the network.
    """
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


def summary(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """Tell how many weights match, and the most likely reason why others do not.

    The arguments are those of :func:`differences`.
    """
    matching = sum(
        name in weights and weights[name].shape == value.shape
        for name, value in expected.items()
    )
    file, network = (
        {to_timm(name): value for name, value in of.items()}
        for of in (weights, expected)
    )
    reason = _reason(file, network, matching)
    return f'{matching} of {len(expected)} weights match; most likely {reason}'


def _reason(
    file: Mapping[str, Tensor], network: Mapping[str, Tensor], matching: int
) -> str:
    for name in _REGISTERS:
        if name in file and name not in network:
            return (
                f'the file has registers ({name}), which the network has no place for'
            )
    if not set(file) & set(network):
        return (
            'the file is of another kind of network, or has its weights below another '
            'prefix'
        )
    theirs, ours = _depth(file), _depth(network)
    if theirs != ours and theirs and ours:
        return f'the file has another depth ({theirs} blocks for {ours})'
    for name in _FIRST:
        if name in file and name in network:
            reason = _first_layer(file[name].shape, network[name].shape)
            if reason:
                return f'the file has {reason}'
    if set(network) - set(file) and not set(file) - set(network):
        return 'the file is incomplete'
    if matching == len(network):
        return 'the file holds more than a backbone'
    return 'the file is of a variant of the network'


def _first_layer(theirs: tuple[int, ...], ours: tuple[int, ...]) -> str:
    if theirs[2:] != ours[2:]:
        return f'another patch size ({_by(theirs[2:])} for {_by(ours[2:])})'
    if theirs[0] != ours[0]:
        return f'another width ({theirs[0]} for {ours[0]})'
    if theirs[1:2] != ours[1:2]:
        return f'another number of input channels ({theirs[1]} for {ours[1]})'
    return ''


def _by(sides: Iterable[int]) -> str:
    return ' x '.join(map(str, sides))


def _depth(names: Iterable[str]) -> int:
    matches = map(_BLOCK.match, names)
    return len({found[1] for found in matches if found})


def _some(names: list[str], most: int = 3) -> str:
    shown = ', '.join(names[:most])
    return shown if len(names) <= most else f'{shown} and {len(names) - most} more'
