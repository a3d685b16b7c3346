"""Networks of timm whose output is timm's own embedding."""

from __future__ import annotations

import timm
from mmpretrain.models.backbones import TIMMBackbone
from mmpretrain.models.backbones.base_backbone import BaseBackbone
from torch import Tensor

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


@MODELS.register_module()
class TIMMEmbedding(TIMMBackbone):
    """A network of timm as it is used without its classifier.

    mmpretrain's ``TIMMBackbone`` also drops the pooling, so that a ViT returns all of
    its tokens and their mean is not the embedding that it was trained for.

    Args:
        model_name (str): Name of a network in timm.
        in_channels (int): Number of channels of the images. Defaults to 3.
        init_cfg (dict, optional): Initialization config of OpenMMLab. Defaults to None.
        **kwargs: Arguments of timm's network, such as ``num_heads`` or ``img_size``.
    """

    def __init__(
        self,
        model_name: str,
        in_channels: int = 3,
        init_cfg: dict | None = None,
        **kwargs,
    ) -> None:
        require_timm(model_name)
        BaseBackbone.__init__(self, init_cfg)
        self.timm_model = timm.create_model(
            model_name, num_classes=0, in_chans=in_channels, **kwargs
        )

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Compute embeddings (n, c)."""
        return (self.timm_model(images),)


def require_timm(name: str) -> None:
    """Refuse a name that is of no network in timm, also one that leads to a file."""
    if not timm.is_model(name):
        close = ', '.join(timm.list_models(f'*{name}*')[:3])
        raise InputError(
            f'timm {timm.__version__} has no network {name!r}'
            f'{f", but {close}" if close else ""}.'
        )
