"""Let configs written for GPUs run on a machine without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from mmengine.config import Config

from mmbam.utils.config import walk
from mmbam.utils.process_group import GLOO_TIMEOUT

SYNC_BN = ('SyncBN', 'MMSyncBN', 'mmcv.SyncBN', 'mmengine.SyncBN')
AMP = ('AmpOptimWrapper', 'mmengine.AmpOptimWrapper')
BACKENDS = ('nccl', 'cpu:gloo,cuda:nccl')


def adapt_to_cpu(cfg: Config) -> list[str]:
    """Replace the settings that need a GPU, in place, and say what was changed."""
    changes = []
    wrapper = cfg.get('optim_wrapper') or {}
    if wrapper.get('type') in AMP:
        # Not bfloat16, which most CPUs only emulate, many times slower.
        set_optim_wrapper(wrapper, 'OptimWrapper')
        changes.append('No GPU: float32 instead of mixed precision.')
    if cfg.get('launcher', 'none') == 'none':
        return changes

    dist_cfg = cfg.setdefault('env_cfg', {}).setdefault('dist_cfg', {})
    if dist_cfg.get('backend', 'nccl') in BACKENDS:
        dist_cfg['backend'] = 'gloo'
        changes.append('No GPU: processes communicate by gloo instead of nccl.')
    if dist_cfg['backend'] == 'gloo':
        dist_cfg.setdefault('timeout', GLOO_TIMEOUT)
    # Otherwise the runner hands DistributedDataParallel the number of a GPU.
    cfg.model_wrapper_cfg = {'device_ids': None, **cfg.get('model_wrapper_cfg', {})}
    # The runner does so itself for a single process.
    norms = [
        node
        for _, node in walk(cfg.get('model'))
        if isinstance(node, dict) and node.get('type') in SYNC_BN
    ]
    for norm in norms:
        norm['type'] = 'BN'
    if cfg.pop('sync_bn', None) or norms:
        changes.append(
            'No GPU: batch norm is not synchronized, because SyncBatchNorm needs one.'
        )
    return changes


def set_optim_wrapper(wrapper: dict[str, Any], kind: str) -> None:
    """Change the type of an ``optim_wrapper`` to one without a loss scale, in place."""
    wrapper['type'] = kind
    for name in ('loss_scale', 'dtype', 'use_fsdp'):
        wrapper.pop(name, None)


@contextmanager
def select_no_gpu(active: bool = True) -> Iterator[None]:
    """Let mmengine's ``init_dist`` work without a GPU, which it selects in any case."""
    with mock.patch.object(torch.cuda, 'set_device') if active else nullcontext():
        yield
