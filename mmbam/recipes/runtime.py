"""What a run needs beside its model, data and optimizer."""

from __future__ import annotations


def runtime_config(log_every: int, save_every: int, gpu: bool) -> dict:
    """Config of logs, checkpoints and processes.

    Args:
        log_every (int): Number of steps between logs.
        save_every (int): Number of epochs between checkpoints.
        gpu (bool): Whether the run is for GPUs.
    """
    runtime = dict(
        default_hooks=dict(
            runtime_info=dict(type='RuntimeInfoHook'),
            timer=dict(type='IterTimerHook'),
            logger=dict(type='LoggerHook', interval=log_every, ignore_last=False),
            param_scheduler=dict(type='ParamSchedulerHook'),
            checkpoint=dict(
                type='mmbam.CheckpointHook',
                interval=save_every,
                max_keep_ckpts=3,
                minutes=15,
            ),
            sampler_seed=dict(type='DistSamplerSeedHook'),
        ),
        env_cfg=dict(
            cudnn_benchmark=True,
            mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
            dist_cfg=dict(backend='nccl' if gpu else 'gloo'),
        ),
        visualizer=dict(
            type='UniversalVisualizer', vis_backends=[dict(type='LocalVisBackend')]
        ),
        log_processor=dict(
            window_size=log_every,
            mean_pattern=r'.*(loss|time|data_time|grad_norm|entropy).*',
        ),
        log_level='INFO',
        load_from=None,
        resume=False,
        randomness=dict(seed=0),
    )
    if gpu:
        runtime['sync_bn'] = 'torch'  # wherever there is batch norm
    return runtime
