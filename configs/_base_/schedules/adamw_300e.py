"""ViT and CAFormer: table of experiment configurations (a) of the paper (App. D)."""

max_epochs = 300
warmup_epochs = 40

optim_wrapper = dict(
    type='AmpOptimWrapper',
    loss_scale='dynamic',
    # The peak rate at batch 4096 (also Sec. 4.1).
    optimizer=dict(type='AdamW', lr=0.003, weight_decay=0.04),
    clip_grad=dict(max_norm=0.3),
    # No decay on biases and other one-dimensional parameters.
    paramwise_cfg=dict(flat_decay_mult=0.0),
)

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-4,
        by_epoch=True,
        begin=0,
        end=warmup_epochs,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        by_epoch=True,
        begin=warmup_epochs,
        end=max_epochs,
        convert_to_iter_based=True,
    ),
    # From 0.04 to 0.4. eta_min would raise the parameters without decay, too.
    dict(
        type='CosineAnnealingParamScheduler',
        param_name='weight_decay',
        eta_min_ratio=10,
        by_epoch=True,
        begin=0,
        end=max_epochs,
        convert_to_iter_based=True,
    ),
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=4096, enable=False)
