"""What benchmarks against a plain forward pass share."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from mmpretrain.models.backbones import ResNet
from mmpretrain.models.selfsup import MoCoV3ViT

BACKBONES = {
    'ViT-S/16': lambda: MoCoV3ViT(arch='mocov3-small', img_size=224, patch_size=16),
    'ResNet-50': lambda: ResNet(50),
}


def seconds(run: Callable[[], None]) -> float:
    """Time of a call: on a CPU, CPU time."""
    if not torch.cuda.is_available():
        began = time.process_time()
        run()
        return time.process_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - began
