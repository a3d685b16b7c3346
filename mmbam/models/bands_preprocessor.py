"""Normalizes images of any number of bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mmpretrain.models.utils import SelfSupDataPreprocessor
from torch import Tensor

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
        if len(mean) != len(std) or not len(mean) or not all(s > 0 for s in std):
            raise InputError(
                'BandsPreprocessor: mean and std must have one value for each band, '
                f'and std values above 0, got mean={list(mean)} and std={list(std)}.'
            )
        for name, values in dict(mean=mean, std=std).items():
            buffer = torch.tensor(values, dtype=torch.float32).view(-1, 1, 1)
            self.register_buffer(name, buffer, False)
        self._enable_normalize = True

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
