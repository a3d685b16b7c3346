"""Layer-wise learning-rate decay around a backbone of mmpretrain."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

from mmpretrain.engine.optimizers import LearningRateDecayOptimWrapperConstructor
from torch import nn

from mmbam.registry import OPTIM_WRAPPER_CONSTRUCTORS
from mmbam.utils.errors import InputError


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class LayerDecayOptimWrapperConstructor(LearningRateDecayOptimWrapperConstructor):
    """Lower learning rates for the earlier layers of ``model.backbone``.

    mmpretrain's constructor asks the whole model for the depth of a parameter, which
    classifiers of mmpretrain know and detectors and segmentors do not; those of mmdet
    and mmsegmentation know their own backbones alone. This one asks the backbone. Its
    embedding has depth 0, block k (from 1) depth k, everything after the last of L
    blocks L + 1, and a parameter of depth d learns at ``rate ** (L + 1 - d)`` times the
    optimiser's rate.

    Args:
        optim_wrapper_cfg (dict): The config's ``optim_wrapper``.
        paramwise_cfg (dict): ``layer_decay_rate``, above 0 and at most 1 (default 1),
            and ``bias_decay_mult``, ``norm_decay_mult``, ``flat_decay_mult`` and
            ``custom_keys`` for the weight decay, as in mmpretrain's
            ``LearningRateDecayOptimWrapperConstructor``.
    """

    def __init__(
        self, optim_wrapper_cfg: dict, paramwise_cfg: dict | None = None
    ) -> None:
        super().__init__(optim_wrapper_cfg, paramwise_cfg)
        rate = self.paramwise_cfg.get('layer_decay_rate', 1.0)
        if not 0 < rate <= 1:
            raise InputError(
                f'layer_decay_rate must be above 0 and at most 1, but got {rate!r}.'
            )

    def add_params(
        self,
        params: list[dict],
        module: nn.Module,
        prefix: str = '',
        get_layer_depth: Callable[[str], tuple[int, int]] | None = None,
        **kwargs,
    ) -> None:
        """Add a group for every parameter of a model, with its learning rate.

        Args:
            params (list[dict]): The groups, added to in place.
            module (nn.Module): The model, or on the way down one of its parts.
            prefix (str): Where the part is in the model. Defaults to ''.
            get_layer_depth (Callable, optional): From the name of a parameter to its
                depth and the number of depths. Defaults to None: the backbone's.
            **kwargs: Passed on.
        """
        if get_layer_depth is None:
            backbone: Any = getattr(module, 'backbone', None)
            if not hasattr(backbone, 'get_layer_depth'):
                raise InputError(
                    'Layer-wise learning-rate decay needs a backbone with a method '
                    'get_layer_depth, as the VisionTransformer of mmpretrain has, but '
                    f'{type(module).__name__} has {type(backbone).__name__}.'
                )
            get_layer_depth = partial(backbone.get_layer_depth, prefix='backbone.')
        super().add_params(params, module, prefix, get_layer_depth, **kwargs)
