"""CAFormer as in the paper."""

from __future__ import annotations

from mmpretrain.models.backbones import TIMMBackbone
from timm.models.metaformer import StarReLU
from torch import nn

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


@MODELS.register_module()
class CAFormer(TIMMBackbone):
    """timm's CAFormer with GELU in place of StarReLU and no residual scaling.

    It has convolutions in the first two stages and attention in the last two, see
    `MetaFormer Baselines for Vision <https://arxiv.org/abs/2210.13452>`_.

    Args:
        arch (str): ``'s18'``, ``'s36'``, ``'m36'`` or ``'b36'``. Defaults to ``'m36'``.
        **kwargs: Arguments of timm's model, such as ``drop_path_rate``.
    """

    def __init__(self, arch: str = 'm36', **kwargs) -> None:
        archs = ('s18', 's36', 'm36', 'b36')
        if arch not in archs:
            raise InputError(f'arch must be one of {archs}, but got {arch!r}.')
        super().__init__(
            model_name=f'caformer_{arch}', res_scale_init_values=(None,) * 4, **kwargs
        )
        # timm has an argument for the activation of the MLPs only.
        for module in list(self.modules()):
            for name, child in module.named_children():
                if isinstance(child, StarReLU):
                    setattr(module, name, nn.GELU())
