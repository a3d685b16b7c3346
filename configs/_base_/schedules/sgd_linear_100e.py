"""Linear probes: table of experiment configurations (b) of the paper (App. D)."""

max_epochs = 100

optim_wrapper = dict(
    type='OptimWrapper',
    # ViT: 0.002 per 256 images, at batch 1024.
    optimizer=dict(type='SGD', lr=0.008, momentum=0.9, weight_decay=0.0),
)

param_scheduler = [
    dict(
        type='CosineAnnealingLR',
        by_epoch=True,
        begin=0,
        end=max_epochs,
        convert_to_iter_based=True,
    ),
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=max_epochs)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=1024, enable=False)
