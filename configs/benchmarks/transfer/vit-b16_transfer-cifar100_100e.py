"""Fine-tuning of ViT-B on CIFAR-100; 91.4 % top-1 in the paper."""

_base_ = './vit-b16_transfer-cifar10_100e.py'

cifar = dict(type='CIFAR100', data_root='data/cifar100')
train_dataloader = dict(dataset=cifar)
val_dataloader = dict(dataset=cifar)
test_dataloader = dict(dataset=cifar)

model = dict(head=dict(num_classes=100))
data_preprocessor = dict(num_classes=100)
