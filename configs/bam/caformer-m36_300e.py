_base_ = './vit-b16_300e.py'

# App. B: the hyper-parameters of ViT-B.
model = dict(
    backbone=dict(_delete_=True, type='mmbam.CAFormer', arch='m36'),
    neck=dict(in_channels=576),
)
