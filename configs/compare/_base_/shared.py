"""What all methods of ``mmbam compare`` share beside their views.

A method's own config may change any of it.
"""

default_scope = 'mmpretrain'
model = dict(
    backbone='=backbone',
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        to_rgb=True,
    ),
)
train_dataloader = dict(
    batch_size='=batch_size',
    num_workers='=workers',
    persistent_workers='=workers > 0',
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs='=epochs')
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr='=lr', weight_decay=0.04),
    clip_grad=dict(max_norm=1.0),
    # SwAV's projector holds its batch norm under two names.
    paramwise_cfg=dict(flat_decay_mult=0.0, bypass_duplicate=True),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, end='=warmup'),
    dict(
        type='CosineAnnealingLR',
        by_epoch=False,
        begin='=warmup',
        end='=max(steps, warmup + 1)',
    ),
]
default_hooks = dict(
    # An interrupted run continues after its last checkpoint.
    checkpoint=dict(
        type='CheckpointHook',
        interval='=max(1, kept_every)',
        max_keep_ckpts='=-1 if kept_every else 1',
    ),
)
custom_hooks = [dict(type='mmbam.SeedByEpochHook')]
env_cfg = dict(mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0))
log_level = 'ERROR'
resume = True
