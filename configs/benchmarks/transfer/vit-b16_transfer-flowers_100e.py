"""Fine-tuning of ViT-B on Flowers-102; 97.9 % in the paper."""

_base_ = './vit-b16_transfer-pets_100e.py'

# MoCo v3's regularization for Flowers: random erasing, drop path and a higher weight
# decay, neither mixup nor CutMix.
train_pipeline = [*_base_.train_pipeline]
train_pipeline.insert(-1, _base_.random_erasing)
flowers = dict(type='Flowers102', data_root='data/Flowers102')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline, **flowers))
val_dataloader = dict(dataset=flowers)
test_dataloader = dict(dataset=flowers)

model = dict(
    backbone=dict(drop_path_rate=0.1), head=dict(num_classes=102), train_cfg=None
)
data_preprocessor = dict(num_classes=102)
optim_wrapper = dict(optimizer=dict(weight_decay=0.3))
