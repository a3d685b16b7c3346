"""Fine-tuning of ViT-B on Oxford-IIIT Pets; 93.9 % in the paper.

    MMBAM_CHECKPOINT=pretrained.pth tools/dist_train.sh \
        configs/benchmarks/transfer/vit-b16_transfer-pets_100e.py 8

Trains on trainval. The test accuracy is logged during training; the result is that of
the last epoch, so nothing is selected on the test set.
"""

_base_ = [
    '../../_base_/models/vit-s16_finetune.py',
    '../../_base_/datasets/transfer_finetune.py',
    '../../_base_/schedules/adamw_finetune_150e.py',
    '../../_base_/hooks/pretrained_backbone.py',
    '../../_base_/default_runtime.py',
]

pets = dict(type='OxfordIIITPet', data_root='data/Oxford-IIIT_Pets')
train_dataloader = dict(
    dataset=dict(
        _delete_=True, split='trainval', pipeline=_base_.train_pipeline, **pets
    )
)
val_dataloader = dict(
    dataset=dict(_delete_=True, split='test', pipeline=_base_.test_pipeline, **pets)
)
test_dataloader = val_dataloader

# The paper (App. D) uses MoCo v3's recipe with its learning rates times 0.1. MoCo v3
# prints the regularization of each data set. Pets: mixup alone.
model = dict(
    backbone=dict(
        arch=dict(embed_dims=768, feedforward_channels=3072), drop_path_rate=0.0
    ),
    head=dict(in_channels=768, num_classes=37),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8)]),
)
data_preprocessor = dict(num_classes=37)

# MoCo v3: 3e-4 per 512 images, at batch 1024, and DeiT's floor of 1e-5; here times 0.1.
optim_wrapper = dict(optimizer=dict(lr=6e-5, weight_decay=0.1))
train_cfg = dict(max_epochs=100)
param_scheduler = [
    dict(_base_.param_scheduler[0], end=3),
    dict(_base_.param_scheduler[1], begin=3, end=100, eta_min_ratio=1 / 60),
]
auto_scale_lr = dict(base_batch_size=1024)
