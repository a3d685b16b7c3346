"""The network of timm that equals a backbone."""

from __future__ import annotations

import json
from typing import Any

import timm
import torch
from mmpretrain.models.backbones import ResNet, TIMMBackbone, VisionTransformer
from torch import Tensor, nn

from mmbam.checkpoints.names import to_timm
from mmbam.models import CAFormer
from mmbam.models.backbones.timm_embedding import TIMMEmbedding
from mmbam.utils.errors import InputError

from .features import difference
from .reopen import as_tokens, create_timm, of_timm
from .source import REFUSALS, Source

_VITS = {192: 'tiny', 384: 'small', 768: 'base', 1024: 'large'}
# Arguments that change nothing in evaluation mode.
_TRAINING = ('drop_path_rate', 'drop_rate', 'proj_drop_rate', 'attn_drop_rate')
TOLERANCE = 1e-4


def timm_weights(backbone: nn.Module) -> dict[str, Tensor]:
    """Weights of a backbone by their names in timm."""
    return {
        to_timm(name): value.contiguous()
        for name, value in backbone.state_dict().items()
    }


def timm_twin(source: Source) -> tuple[dict[str, Any], Source]:
    """Describe the network of timm that gives the features of a backbone.

    Args:
        source (Source): The backbone.

    Returns:
        tuple[dict, Source]: ``architecture`` and ``model_args`` for
        ``timm.create_model``, and ``gelu`` if GELU takes the place of StarReLU; and the
        source with images of the sizes that timm's network takes as well.

    Raises:
        InputError: timm has no such network.
    """
    recipe = _recipe(source)
    try:
        json.dumps(recipe)
        network = create_timm(recipe)
        network.load_state_dict(timm_weights(source.backbone))
        if not all(_agrees(network, source)):
            source = source.fixed()
            if not all(_agrees(network, source)):
                raise InputError('it gives other features')
    except (*REFUSALS, TypeError, KeyError) as error:
        reason = ' '.join(str(error).split())
        raise InputError(
            f'timm has no network that equals this {source.facts["network"]} '
            f'({reason[:200]}): use --to mmpretrain, onnx or torchscript.'
        ) from error
    return recipe, source


@torch.no_grad()
def _agrees(network: nn.Module, source: Source) -> list[bool]:
    network.eval()
    agree = []
    for images, expected in zip(source.images, source.expected):
        try:
            found = of_timm(network, images)
        except REFUSALS:  # a size that it does not take
            return [False]
        expected = expected[0], as_tokens(expected[1])
        agree += [difference(*pair) <= TOLERANCE for pair in zip(found, expected)]
    return agree


def _recipe(source: Source) -> dict[str, Any]:
    backbone, cfg = source.backbone, source.cfg
    if isinstance(backbone, VisionTransformer):
        return _of_vit(backbone)
    if isinstance(backbone, CAFormer):
        # timm takes activations as classes, which JSON cannot name.
        args: dict[str, Any] = dict(res_scale_init_values=[None] * 4)
        name = f'caformer_{cfg.get("arch", "m36")}'
        return dict(architecture=name, model_args=args, gelu=True)
    if isinstance(backbone, TIMMBackbone):
        known = {'type', 'model_name', 'features_only', 'in_channels', *_TRAINING}
        args = {key: value for key, value in cfg.items() if key not in known}
        if cfg.get('features_only'):
            raise InputError('A feature pyramid has no embedding.')
        vit = isinstance(backbone.timm_model, timm.models.VisionTransformer)
        if vit and not isinstance(backbone, TIMMEmbedding):
            # mmpretrain's wrapper returns all tokens, which are averaged.
            args.update(global_pool='avg', pool_include_prefix=True, fc_norm=False)
        return dict(architecture=cfg['model_name'], model_args=args)
    if type(backbone) is ResNet:
        return dict(architecture=f'resnet{backbone.depth}', model_args={})
    raise InputError(
        f'timm has no network that equals {type(backbone).__name__}: use --to '
        'mmpretrain, onnx or torchscript.'
    )


def _of_vit(backbone: VisionTransformer) -> dict[str, Any]:
    width, arch = backbone.embed_dims, backbone.arch_settings
    kernel = backbone.patch_embed.projection.kernel_size
    first = backbone.layers[0]
    pools: dict[str, dict[str, Any]] = {
        'cls_token': dict(global_pool='token'),
        'avg_featmap': dict(global_pool='avg', fc_norm=True),
        'featmap': dict(global_pool='avg', fc_norm=False),
        'raw': dict(global_pool='avg', fc_norm=False, pool_include_prefix=True),
    }
    args = dict(
        img_size=list(backbone.img_size),
        patch_size=list(kernel),
        embed_dim=width,
        depth=backbone.num_layers,
        # timm's ViT-S has 6 heads, MoCo v3's and BAM's 12, with equal shapes.
        num_heads=arch['num_heads'],
        mlp_ratio=arch['feedforward_channels'] / width,
        qkv_bias=first.attn.qkv.bias is not None,
        class_token=backbone.cls_token is not None,
        pre_norm=not isinstance(backbone.pre_norm, nn.Identity),
        **pools[backbone.out_type],
    )
    if 'layers.0.attn.gamma1.weight' in backbone.state_dict():
        args['init_values'] = 1.0  # of layer scale, whose weights are in the file
    name = f'vit_{_VITS.get(width, "base")}_patch16_224'
    return dict(architecture=name, model_args=args)
