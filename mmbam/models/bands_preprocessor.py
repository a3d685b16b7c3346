"""Normalizes images of any number of bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mmpretrain.models.utils import SelfSupDataPreprocessor
from torch import Tensor, nn

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


@MODELS.register_module()
class BandsPreprocessor(SelfSupDataPreprocessor):
    """mmpretrain's ``SelfSupDataPreprocessor`` for any number of bands.

    That one refuses a mean of other than 1 or 3 values. Bands keep their order.
    ``mmbam stats`` prints the values for a folder of images.

    Args:
        mean (Sequence[float]): Mean of each band, in the values of the images.
        std (Sequence[float]): Standard deviation of each band.
        non_blocking (bool): Whether copies to the device run beside the computation.
            Defaults to False.
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        non_blocking: bool = False,
    ) -> None:
        super().__init__(non_blocking=non_blocking)
        _normalize(self, mean, std)

    def forward(self, data: dict, training: bool = False) -> Any:
        """Normalize images, or lists of views, of shape (n, bands, h, w)."""
        inputs = data['inputs']
        views = [inputs] if isinstance(inputs, Tensor) else inputs
        for view in views:
            if view.shape[-3] != len(self.mean):
                raise InputError(
                    f'BandsPreprocessor has a mean of {len(self.mean)} bands, but the '
                    f'images have {view.shape[-3]}.'
                )
        return super().forward(data, training)


@MODELS.register_module()
def BandsSegPreprocessor(  # noqa: N802, the name of a type in configs
    mean: Sequence[float], std: Sequence[float], **kwargs: Any
) -> nn.Module:
    """Make mmsegmentation's ``SegDataPreProcessor`` for any number of bands.

    Needed because that of the maintained fork refuses a mean of other than 1 or 3
    values. A function, because mmsegmentation is optional.

    Args:
        mean (Sequence[float]): Mean of each band, in the values of the images.
        std (Sequence[float]): Standard deviation of each band.
        **kwargs: Further arguments of ``SegDataPreProcessor``, such as ``size``.
    """
    from mmseg.models import SegDataPreProcessor

    preprocessor = SegDataPreProcessor(**kwargs)
    _normalize(preprocessor, mean, std)
    return preprocessor


def _normalize(
    preprocessor: nn.Module, mean: Sequence[float], std: Sequence[float]
) -> None:
    """Give a preprocessor without normalization the mean and deviation of bands."""
    if len(mean) != len(std) or not len(mean) or not all(s > 0 for s in std):
        raise InputError(
            'BandsPreprocessor: mean and std must have one value for each band, '
            f'and std values above 0, got mean={list(mean)} and std={list(std)}.'
        )
    for name, values in dict(mean=mean, std=std).items():
        buffer = torch.tensor(values, dtype=torch.float32).view(-1, 1, 1)
        preprocessor.register_buffer(name, buffer, False)
    preprocessor._enable_normalize = True  # type: ignore[assignment]
