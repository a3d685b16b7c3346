"""Let configs written for GPUs run on a machine without one."""

from __future__ import annotations

import datetime
import os
import subprocess
from typing import Any

import torch.distributed as dist
from mmengine.config import Config

SYNC_BN = ('SyncBN', 'MMSyncBN', 'mmcv.SyncBN', 'mmengine.SyncBN')
AMP = ('AmpOptimWrapper', 'mmengine.AmpOptimWrapper')
BACKENDS = ('nccl', 'cpu:gloo,cuda:nccl')


def adapt_to_cpu(cfg: Config) -> list[str]:
    """Replace what needs a GPU by what does not, in place.

    Args:
        cfg (Config): The config of a run, with its ``launcher``.

    Returns:
        list[str]: A sentence for each thing that was replaced.
    """
    changes = []
    wrapper = cfg.get('optim_wrapper') or {}
    if wrapper.get('type') in AMP:
        # Not bfloat16, which few CPUs can compute with: it may take many times longer.
        set_optim_wrapper(wrapper, 'OptimWrapper')
        changes.append('No GPU: float32 instead of mixed precision.')
    if cfg.get('launcher', 'none') == 'none':
        return changes

    dist_cfg = cfg.setdefault('env_cfg', {}).setdefault('dist_cfg', {})
    if dist_cfg.get('backend', 'nccl') in BACKENDS:
        dist_cfg['backend'] = 'gloo'
        changes.append('No GPU: processes communicate by gloo instead of nccl.')
    # Otherwise the runner hands DistributedDataParallel the number of a GPU.
    cfg.model_wrapper_cfg = {'device_ids': None, **cfg.get('model_wrapper_cfg', {})}
    replaced = _replace_sync_bn(cfg.get('model'))
    if cfg.pop('sync_bn', None) or replaced:
        changes.append(
            'No GPU: batch norm is not synchronised, because SyncBatchNorm works on '
            'GPUs alone.'
        )
    return changes


def set_optim_wrapper(wrapper: dict[str, Any], kind: str) -> None:
    """Give an ``optim_wrapper`` a type that knows no loss scale.

    Args:
        wrapper (dict): The config's ``optim_wrapper``, changed in place.
        kind (str): The new type.
    """
    wrapper['type'] = kind
    for name in ('loss_scale', 'dtype', 'use_fsdp'):
        wrapper.pop(name, None)


def _replace_sync_bn(node: Any) -> bool:
    """Turn every ``SyncBN`` of a model into ``BN``; tell whether there was any.

    The runner does so itself for a single process.
    """
    replaced = False
    if isinstance(node, dict):
        if node.get('type') in SYNC_BN:
            node['type'] = 'BN'
            replaced = True
        children = list(node.values())
    else:
        children = node if isinstance(node, (list, tuple)) else ()
    for child in children:
        replaced = _replace_sync_bn(child) or replaced
    return replaced


def init_cpu_group(launcher: str, backend: str = 'gloo', **kwargs: Any) -> None:
    """Join the process group; mmengine's way of doing it selects a GPU first.

    Args:
        launcher (str): ``pytorch``, ``slurm`` or ``mpi``: who set the variables.
        backend (str): Backend of torch.distributed. Defaults to 'gloo'.
        **kwargs: Other values of the config's ``dist_cfg``; of these, ``timeout``
            (seconds) counts.
    """
    env = os.environ
    if launcher == 'slurm':
        env['RANK'], env['WORLD_SIZE'] = env['SLURM_PROCID'], env['SLURM_NTASKS']
        env['LOCAL_RANK'] = env.get('SLURM_LOCALID', '0')
        if 'MASTER_ADDR' not in env:
            command = ['scontrol', 'show', 'hostname', env['SLURM_NODELIST']]
            env['MASTER_ADDR'] = subprocess.check_output(command, text=True).split()[0]
    elif launcher == 'mpi':
        env['RANK'] = env['OMPI_COMM_WORLD_RANK']
        env['WORLD_SIZE'] = env['OMPI_COMM_WORLD_SIZE']
        env['LOCAL_RANK'] = env['OMPI_COMM_WORLD_LOCAL_RANK']
    env.setdefault('MASTER_PORT', '29500')
    timeout = kwargs.get('timeout')
    if timeout is not None:
        timeout = datetime.timedelta(seconds=timeout)
        dist.init_process_group(backend, timeout=timeout)
    else:
        dist.init_process_group(backend)
