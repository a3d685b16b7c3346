"""Networks of timm whose output is timm's own embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmengine.config import Config
from mmpretrain.models.backbones import TIMMBackbone
from mmpretrain.models.backbones.base_backbone import BaseBackbone
from torch import Tensor

from mmbam.checkpoints.trust import without_loading
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
        import timm  # takes a second

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
    import timm

    if not timm.is_model(name):
        close = ', '.join(timm.list_models(f'*{name}*')[:3])
        raise InputError(
            f'timm {timm.__version__} has no network {name!r}'
            f'{f", but {close}" if close else ""}.'
        )


def timm_config(
    name: str, own: Mapping[str, Any] | None = None, size: int | None = None
) -> Config:
    """Config of a network of timm.

    Args:
        name (str): Name of the network.
        own (Mapping, optional): Content of the ``config.json`` beside its weights.
            Defaults to None.
        size (int, optional): Height and width of the images. Defaults to None, the
            network's own.

    Returns:
        Config: With ``model.backbone``, ``data_preprocessor`` and ``size``.
    """
    import timm

    own = own or {}
    arguments = own.get('model_args')
    arguments = dict(arguments) if isinstance(arguments, Mapping) else {}
    require_timm(name)
    known = timm.get_pretrained_cfg(name)
    images: dict[str, Any] = known.to_dict() if known else {}
    more = own.get('pretrained_cfg')
    images.update(more if isinstance(more, Mapping) else {})
    backbone: dict[str, Any] = dict(type='mmbam.TIMMEmbedding', model_name=name)
    if size and images.get('fixed_input_size'):
        backbone.update(img_size=size)
    backbone.update(without_loading(arguments))
    # timm's numbers are of images from 0 to 1.
    mean, std = (
        [255 * float(x) for x in images.get(key) or (0.5, 0.5, 0.5)]
        for key in ('mean', 'std')
    )
    return Config(
        dict(
            model=dict(backbone=backbone),
            data_preprocessor=dict(mean=mean, std=std, to_rgb=True),
            size=size or int((images.get('input_size') or (3, 224, 224))[-1]),
        )
    )
