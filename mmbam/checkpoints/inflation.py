"""Weights of RGB images for networks that see another number of bands."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from mmbam.utils.errors import InputError

INFLATE = (None, 'mean', 'repeat')


def inflate_input(
    weights: dict[str, Tensor], expected: Mapping[str, Tensor], inflate: str | None
) -> None:
    """Change the first layer of a checkpoint to the network's number of bands.

    Args:
        weights (dict[str, Tensor]): Weights of the checkpoint, changed in place.
        expected (Mapping[str, Tensor]): Weights of the network, by the same names.
        inflate (str, optional): ``'mean'`` gives every band the mean of the
            checkpoint's, ``'repeat'`` repeats the checkpoint's bands in turn. Both are
            scaled so that equal bands give the activations that they gave before. None
            refuses other numbers of bands.
    """
    if inflate not in INFLATE:
        raise InputError(f'inflate must be one of {INFLATE}, but got {inflate!r}.')
    name = _first_layer(weights, expected)
    if name is None:
        return
    value, bands = weights[name], expected[name].shape[1]
    known = value.shape[1]
    if inflate is None:
        raise InputError(
            f'The checkpoint is of a network that sees {known} bands, but this one '
            f"sees {bands} ({name}): load it with inflate='mean' or inflate='repeat' "
            'of mmbam.PretrainedBackboneHook, mmbam.FrozenTeacher or load_backbone.'
        )
    if inflate == 'mean':
        wide = value.mean(dim=1, keepdim=True).expand(-1, bands, -1, -1)
    else:
        wide = value[:, [band % known for band in range(bands)]]
    weights[name] = (wide * (known / bands)).contiguous()


def _first_layer(
    weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> str | None:
    """The convolution that differs in its number of input bands, if it is the only."""
    found = [
        name
        for name, value in weights.items()
        if name in expected
        and value.dim() == expected[name].dim() == 4
        and value.shape[1] != expected[name].shape[1]
        and (value.shape[0], *value.shape[2:])
        == (expected[name].shape[0], *expected[name].shape[2:])
    ]
    return found[0] if len(found) == 1 else None
