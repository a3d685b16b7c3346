"""Fine-tuning of ViT-B on CIFAR-100; 91.4 % top-1 in the paper."""

_base_ = './vit-b16_transfer-cifar10_100e.py'

cifar = dict(type='CIFAR100', data_root='data/cifar100')
train_dataloader = dict(dataset=cifar)
val_dataloader = dict(dataset=cifar)
test_dataloader = dict(dataset=cifar)

# MoCo v3's regularization for CIFAR-100: less mixup than for CIFAR-10.
model = dict(
    head=dict(num_classes=100),
    train_cfg=dict(
        augments=[dict(type='Mixup', alpha=0.5), dict(type='CutMix', alpha=1.0)]
    ),
)
data_preprocessor = dict(num_classes=100)
