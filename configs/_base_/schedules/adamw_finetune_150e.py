"""Fine-tuning: DeiT's defaults for 150 epochs (App. D of the paper)."""

max_epochs = 150
warmup_epochs = 5

optim_wrapper = dict(
    type='AmpOptimWrapper',
    loss_scale='dynamic',
    # 5e-4 per 512 images, at batch 1024.
    optimizer=dict(type='AdamW', lr=0.001, weight_decay=0.05),
    # No decay of biases, norms, [cls] and positions. All layers learn at one rate.
    paramwise_cfg=dict(
        flat_decay_mult=0.0,
        custom_keys={
            '.cls_token': dict(decay_mult=0.0),
            '.pos_embed': dict(decay_mult=0.0),
        },
    ),
)

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-3,
        by_epoch=True,
        begin=0,
        end=warmup_epochs,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        # DeiT's 1e-5. As a ratio, it follows the learning rate to other batch sizes.
        eta_min_ratio=0.01,
        by_epoch=True,
        begin=warmup_epochs,
        end=max_epochs,
        convert_to_iter_based=True,
    ),
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=max_epochs)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=1024, enable=False)
