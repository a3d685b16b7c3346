default_scope = 'mmpretrain'

default_hooks = dict(
    runtime_info=dict(type='RuntimeInfoHook'),
    timer=dict(type='IterTimerHook'),
    logger=dict(type='LoggerHook', interval=50),
    param_scheduler=dict(type='ParamSchedulerHook'),
    # Every 10 epochs, and after 15 minutes without a checkpoint.
    checkpoint=dict(
        type='mmbam.CheckpointHook', interval=10, max_keep_ckpts=3, minutes=15
    ),
    sampler_seed=dict(type='DistSamplerSeedHook'),
)

env_cfg = dict(
    cudnn_benchmark=True,
    mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
    dist_cfg=dict(backend='nccl'),
)

vis_backends = [dict(type='LocalVisBackend')]
visualizer = dict(type='UniversalVisualizer', vis_backends=vis_backends)
log_processor = dict(
    window_size=50,
    # Entropies are averaged over the window as well.
    mean_pattern=r'.*(loss|time|data_time|grad_norm|entropy).*',
)
log_level = 'INFO'

load_from = None
resume = False
randomness = dict(seed=0)
sync_bn = 'torch'  # for models with batch norm on several GPUs
