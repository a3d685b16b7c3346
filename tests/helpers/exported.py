"""Checkpoints as mmbam's runner writes them, of small networks, and exports of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from torch import nn

from .networks import mm
from .transformers_env import OTHER_PYTHON, need_transformers

ARCH = dict(embed_dims=24, num_layers=2, num_heads=4, feedforward_channels=48)
NETWORKS = dict(
    vit=dict(type='mmbam.ClsViT', arch=ARCH, img_size=32, patch_size=8),
    resnet=dict(type='mmpretrain.ResNet', depth=18),
    caformer=dict(type='mmbam.CAFormer', arch='s18'),
    timm=dict(type='mmpretrain.TIMMBackbone', model_name='convnext_atto'),
    timm_vit=dict(
        type='mmpretrain.TIMMBackbone',
        model_name='vit_tiny_patch16_224',
        img_size=32,
        depth=2,
    ),
    channels_last=dict(
        type='mmpretrain.TIMMBackbone',
        model_name='swin_tiny_patch4_window7_224',
        img_size=32,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 2],
    ),
    own=dict(type='mmpretrain.ResNet_CIFAR', depth=18),
)
CONFIG = dict(
    default_scope='mmpretrain',
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor', mean=[120.0] * 3, std=[60.0] * 3, to_rgb=True
    ),
    optim_wrapper=dict(optimizer=dict(type='AdamW', lr=0.003)),
    train_cfg=dict(max_epochs=300),
    train_dataloader=dict(
        batch_size=256, dataset=dict(type='ImageNet', data_root='/secret/imagenet')
    ),
)


def save_checkpoint(path: Path, network: str | dict, teacher: bool = True) -> nn.Module:
    """Write a checkpoint of BAM with its config in it.

    Returns:
        nn.Module: The backbone of the teacher, or of the student if there is none.
    """
    backbone = NETWORKS[network] if isinstance(network, str) else network
    model = nn.Module()
    model.backbone = mm(**backbone)
    if teacher:
        model.teacher = nn.Module()
        model.teacher.backbone = mm(**backbone)
        for value in model.teacher.state_dict().values():
            value.copy_(value * 1.01)
    cfg = Config(dict(CONFIG, model=dict(type='mmbam.BAM', backbone=backbone)))
    meta = dict(epoch=7, iter=70, cfg=cfg.pretty_text)
    torch.save(dict(state_dict=model.state_dict(), meta=meta), path)
    return model.teacher.backbone if teacher else model.backbone


def need(to: str) -> None:
    """Skip the test where a library that opens a format is missing."""
    for package in ('onnx', 'onnxruntime') if to == 'onnx' else ():
        pytest.importorskip(package)
    if to == 'hf':
        need_transformers()


def opener(to: str) -> str | None:
    """Python of another environment that opens a format."""
    return OTHER_PYTHON if to == 'hf' else None


def place(folder: Path, to: str) -> Path:
    """Where to write a format."""
    suffix = dict(hf='', onnx='.onnx', safetensors='.safetensors').get(to, '.pth')
    return folder / f'out{suffix}'
