"""Fine-tuning of ViT-B on Flowers-102; 97.9 % in the paper."""

_base_ = './vit-b16_transfer-pets_100e.py'

flowers = dict(type='Flowers102', data_root='data/Flowers102')
train_dataloader = dict(dataset=flowers)
val_dataloader = dict(dataset=flowers)
test_dataloader = dict(dataset=flowers)

model = dict(head=dict(num_classes=102))
data_preprocessor = dict(num_classes=102)
