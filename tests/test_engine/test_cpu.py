"""Configs for GPUs run without one."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from mmengine.config import Config
from mmengine.dist import init_dist

from mmbam.engine.cpu import adapt_to_cpu, select_no_gpu


def gpu_config(launcher: str) -> Config:
    norm = dict(type='SyncBN', requires_grad=True)
    return Config(
        dict(
            launcher=launcher,
            model=dict(backbone=dict(norm_cfg=norm), heads=[dict(norm_cfg=norm)]),
            optim_wrapper=dict(
                type='AmpOptimWrapper', loss_scale='dynamic', dtype='float16'
            ),
            env_cfg=dict(dist_cfg=dict(backend='nccl', timeout=60)),
            find_unused_parameters=True,
            sync_bn='torch',
        )
    )


def test_processes_get_gloo_no_device_and_plain_batch_norm():
    cfg = gpu_config('pytorch')
    changes = adapt_to_cpu(cfg)
    assert cfg.env_cfg.dist_cfg == dict(backend='gloo', timeout=60)
    assert cfg.model_wrapper_cfg == dict(device_ids=None)
    assert cfg.model.backbone.norm_cfg.type == 'BN'
    assert cfg.model.heads[0].norm_cfg.type == 'BN'
    assert 'sync_bn' not in cfg
    assert cfg.optim_wrapper == dict(type='OptimWrapper')
    said = ' '.join(changes)
    assert all(word in said for word in ('gloo', 'float32', 'batch norm'))


def test_one_process_keeps_what_the_runner_handles():
    cfg = gpu_config('none')
    assert len(adapt_to_cpu(cfg)) == 1
    assert cfg.sync_bn == 'torch'
    assert 'model_wrapper_cfg' not in cfg


def test_a_config_that_needs_no_gpu_is_left_alone_silently():
    cfg = Config(
        dict(
            launcher='pytorch',
            optim_wrapper=dict(type='OptimWrapper'),
            env_cfg=dict(dist_cfg=dict(backend='gloo')),
            model_wrapper_cfg=dict(type='MMSeparateDistributedDataParallel'),
        )
    )
    assert adapt_to_cpu(cfg) == []
    assert cfg.model_wrapper_cfg.type == 'MMSeparateDistributedDataParallel'


SLURM = dict(
    SLURM_PROCID='0', SLURM_NTASKS='1', SLURM_LOCALID='0', SLURM_NODELIST='node'
)
MPI = dict(
    OMPI_COMM_WORLD_RANK='0', OMPI_COMM_WORLD_SIZE='1', OMPI_COMM_WORLD_LOCAL_RANK='0'
)
PYTORCH = dict(RANK='0', WORLD_SIZE='1', LOCAL_RANK='0')


@pytest.mark.parametrize(
    'launcher, variables', [('slurm', SLURM), ('mpi', MPI), ('pytorch', PYTORCH)]
)
def test_every_launcher_joins_the_group(launcher, variables, monkeypatch):
    for name in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK'):  # to be removed afterwards
        monkeypatch.setenv(name, 'unset')
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv('MASTER_ADDR', '127.0.0.1')
    monkeypatch.setenv('MASTER_PORT', '0')
    with select_no_gpu():
        init_dist(launcher, 'gloo', timeout=30)
    try:
        assert dist.get_backend() == 'gloo'
        assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    finally:
        dist.destroy_process_group()
