"""ViT-S with the settings of the authors' release, which differ from the paper's.

Numbers come from scripts/pretrain/vit_small.slurm of
https://github.com/DanielShalam/BAM; the option is named beside each.
"""

_base_ = './vit-s16_300e.py'

max_epochs = 400  # --epochs

model = dict(
    head=dict(
        loss=dict(
            top_k=128,  # --top_k_sink
            # The release balances the rows of all views and keeps those of the targets.
            balance_rows='all',
        )
    ),
    grad_checkpointing=False,  # --grad_checkpointing -1
)

# --lr 0.0003 per 256 images, at batch 4096.
peak_lr = 0.0003 * 4096 / 256
optim_wrapper = dict(optimizer=dict(lr=peak_lr))
param_scheduler = [
    _base_.param_scheduler[0],  # --warmup_epochs 40
    dict(
        _base_.param_scheduler[1],
        end=max_epochs,
        # --min_lr 1e-3. As a ratio, it follows the learning rate to other batch sizes.
        eta_min_ratio=1e-3 / peak_lr,
    ),
    dict(_base_.param_scheduler[2], end=max_epochs),
]
train_cfg = dict(max_epochs=max_epochs)

# Plain resizes of labeled images, for the k-NN classifier.
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='ResizeEdge', scale=256, edge='short', interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs'),
]
labeled = dict(type='ImageNet', data_root='data/imagenet', pipeline=test_pipeline)
custom_hooks = [
    dict(type='mmbam.SeedByEpochHook'),
    # --warmup_epochs 40 --loc_interval 40
    dict(type='mmbam.LocalizeHook', start_epoch=40, interval=40),
    # --reg 0.05 --reg_final 0.05: constant. Another start makes it a schedule.
    dict(type='mmbam.TauBHook', start=0.05, end=0.05, epochs=30),
    dict(
        type='mmbam.KNNHook',
        train_dataset=dict(labeled, split='train'),
        test_dataset=dict(labeled, split='val'),
        interval=16,  # --knn_freq
        fraction=0.1,  # --knn_train_fraction, the release's default
    ),
    dict(type='mmbam.MonitorHook', interval=50),
]
