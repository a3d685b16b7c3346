"""Fine-tuning of ViT-B on CIFAR-10; 99.0 % top-1 in the paper.

    MMBAM_CHECKPOINT=pretrained.pth tools/dist_train.sh \
        configs/benchmarks/transfer/vit-b16_transfer-cifar10_100e.py 8

The data set is downloaded if it is missing.
"""

_base_ = './vit-b16_transfer-pets_100e.py'

# The data set gives RGB arrays; the pipelines expect BGR.
load = [dict(type='NumpyToPIL'), dict(type='PILToNumpy', to_bgr=True)]
cifar = dict(type='CIFAR10', data_root='data/cifar10')
train_dataloader = dict(
    dataset=dict(split='train', pipeline=load + _base_.train_pipeline[1:], **cifar)
)
val_dataloader = dict(dataset=dict(pipeline=load + _base_.test_pipeline[1:], **cifar))
test_dataloader = val_dataloader

# MoCo v3's regularization for CIFAR-10: drop path, and mixup or CutMix for each batch.
model = dict(
    backbone=dict(drop_path_rate=0.1),
    head=dict(num_classes=10),
    train_cfg=dict(
        augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]
    ),
)
data_preprocessor = dict(num_classes=10)
