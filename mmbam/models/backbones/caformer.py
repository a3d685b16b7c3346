"""CAFormer as in the paper."""

from __future__ import annotations

from mmpretrain.models.backbones import TIMMBackbone
from torch import nn

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


@MODELS.register_module()
class CAFormer(TIMMBackbone):
    """timm's CAFormer with GELU in place of StarReLU and no residual scaling.

    It has convolutions in the first two stages and attention in the last two, see
    `MetaFormer Baselines for Vision <https://arxiv.org/abs/2210.13452>`_. Its output is
    one vector per image, as in timm and in the authors' release: the final norm of the
    mean over positions.

    Args:
        arch (str): ``'s18'``, ``'s36'``, ``'m36'`` or ``'b36'``. Defaults to ``'m36'``.
        **kwargs: Arguments of ``TIMMBackbone`` and of timm's model, such as
            ``drop_path_rate``. With ``features_only=True`` the output is the maps of
            all stages, without the final norm.
    """

    def __init__(self, arch: str = 'm36', **kwargs) -> None:
        archs = ('s18', 's36', 'm36', 'b36')
        if arch not in archs:
            raise InputError(f'arch must be one of {archs}, but got {arch!r}.')
        super().__init__(
            model_name=f'caformer_{arch}',
            mlp_act=nn.GELU,
            act1_layer=nn.GELU,  # of the separable convolutions
            res_scale_init_values=(None,) * 4,
            **kwargs,
        )
        if hasattr(self.timm_model, 'reset_classifier'):
            # The wrapper takes timm's pooling away, which comes before the final norm.
            self.timm_model.reset_classifier(0, 'avg')
