"""UPerNet with ResNet-50 on ADE20K, with mmsegmentation's recipe (SGD).

The paper reports ViT-B only.
"""

_base_ = [
    'mmseg::_base_/models/upernet_r50.py',
    'mmseg::_base_/datasets/ade20k.py',
    'mmseg::_base_/schedules/schedule_160k.py',
    'mmseg::_base_/default_runtime.py',
    '../../_base_/hooks/pretrained_backbone.py',
]

data_preprocessor = dict(size=(512, 512))
model = dict(
    data_preprocessor=data_preprocessor,
    pretrained=None,
    # mmpretrain's ResNet, as in pre-training; mmsegmentation's has another stem.
    backbone=dict(
        _delete_=True,
        type='mmpretrain.ResNet',
        depth=50,
        out_indices=(0, 1, 2, 3),
        norm_cfg=dict(type='SyncBN', requires_grad=True),
    ),
    decode_head=dict(num_classes=150),
    auxiliary_head=dict(num_classes=150),
)

train_dataloader = dict(batch_size=2)  # x 8 GPUs = 16
auto_scale_lr = dict(base_batch_size=16, enable=False)

randomness = dict(seed=0)
