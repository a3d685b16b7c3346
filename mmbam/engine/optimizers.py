"""Learning rates layer by layer, and mixed precision without a GPU."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import Any, Callable

import torch
from mmengine.optim import OptimWrapper
from mmengine.runner import autocast
from mmpretrain.engine.optimizers import LearningRateDecayOptimWrapperConstructor
from torch import nn

from mmbam.registry import OPTIM_WRAPPER_CONSTRUCTORS, OPTIM_WRAPPERS
from mmbam.utils.errors import InputError


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class LayerDecayOptimWrapperConstructor(LearningRateDecayOptimWrapperConstructor):
    """Lower learning rates for the earlier layers of ``model.backbone``.

    mmpretrain's constructor asks the whole model for the depth of a parameter, which
    detectors and segmentors do not know; those of mmdet and mmsegmentation only know
    their own backbones. This one asks the backbone. Its embedding has depth 0, block k
    (from 1) depth k, and everything after the last of L blocks depth L + 1. A parameter
    of depth d learns at ``rate ** (L + 1 - d)`` times the optimizer's rate.

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
            prefix (str): Name of the part in the model. Defaults to ''.
            get_layer_depth (Callable, optional): Function from the name of a parameter
                to its depth and the number of depths. Defaults to None: the backbone's.
            **kwargs: Other arguments of mmpretrain's method.
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


@OPTIM_WRAPPERS.register_module()
class AutocastOptimWrapper(OptimWrapper):
    """Train in bfloat16 on any device.

    bfloat16 has float32's range of exponents, so no gradient scaler is needed, which is
    the part of ``AmpOptimWrapper`` that needs a GPU.

    Args:
        **kwargs: Arguments of :class:`mmengine.optim.OptimWrapper`.
    """

    @contextmanager
    def optim_context(self, model: nn.Module):
        """Cast in the forward pass, besides what the base class does.

        Args:
            model (nn.Module): The model that is trained.
        """
        with super().optim_context(model), autocast(dtype=torch.bfloat16):
            yield
