"""BAM with ViT-B/16; 78.1 % top-1 of the linear probe in the paper (Table 2).

App. B of the paper gives 77.5 % for the same network and length.
"""

_base_ = './vit-s16_300e.py'

model = dict(backbone=dict(arch='base'), neck=dict(in_channels=768))
