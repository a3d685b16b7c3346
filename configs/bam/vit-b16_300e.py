_base_ = './vit-s16_300e.py'

model = dict(backbone=dict(arch='base'), neck=dict(in_channels=768))
