"""Continue from pre-trained weights, to adapt a backbone to your own images.

    export MMBAM_CHECKPOINT=/path/to/pretrained.pth
    tools/dist_train.sh configs/bam/vit-b16_adapt_100e.py 8 --auto-scale-lr \
        --cfg-options train_dataloader.dataset.data_root=/path/to/images
"""

_base_ = './vit-b16_300e.py'

train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='mmbam.FolderDataset',
        data_root='data/images',
        pipeline=_base_.train_pipeline,
    )
)

# Good weights need small steps, and give useful boxes from the first epoch on.
train_cfg = dict(max_epochs=100)
optim_wrapper = dict(optimizer=dict(lr=0.0003))
param_scheduler = [
    dict(_base_.param_scheduler[0], end=5),
    dict(_base_.param_scheduler[1], begin=5, end=100),
    dict(_base_.param_scheduler[2], end=100),
]
custom_hooks = [
    # Stops unless every weight of the backbone is in the file.
    dict(type='mmbam.PretrainedBackboneHook'),
    dict(type='mmbam.SeedByEpochHook'),
    dict(type='mmbam.LocalizeHook', start_epoch=0, interval=20),
    dict(type='mmbam.MonitorHook', interval=50),
]
