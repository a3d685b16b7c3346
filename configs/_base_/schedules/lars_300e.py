"""ResNet: table of experiment configurations (a) of the paper (App. D)."""

max_epochs = 300
warmup_epochs = 10

no_adaptation = dict(decay_mult=0.0, lars_exclude=True)
optim_wrapper = dict(
    type='AmpOptimWrapper',
    loss_scale='dynamic',
    # 0.3 per 256 images, at batch 4096.
    optimizer=dict(type='LARS', lr=4.8, momentum=0.9, weight_decay=1e-6),
    paramwise_cfg=dict(
        custom_keys={
            'bn': no_adaptation,
            'downsample.1': no_adaptation,
            'bias': no_adaptation,
        }
    ),
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
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=4096, enable=False)
