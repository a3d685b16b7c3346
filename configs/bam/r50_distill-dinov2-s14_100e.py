"""Distil a frozen foundation model of another architecture (App. C: "any teacher").

The teacher is mmpretrain's DINOv2 ViT-S/14, whose published weights
`vit-small-p14_dinov2-pre_3rdparty_20230426-5641ca5a.pth` are given by

    --cfg-options model.teacher.checkpoint=/path/to/that.pth
"""

_base_ = './r50_300e.py'

model = dict(
    # Its latents are compared with the teacher's: the width is that of its [cls] token.
    neck=dict(out_channels=384),
    teacher=dict(
        _delete_=True,
        type='mmbam.FrozenTeacher',
        backbone=dict(
            type='VisionTransformer',
            arch='dinov2-small',
            img_size=518,
            patch_size=14,
            layer_scale_init_value=1e-5,
            out_type='cls_token',
        ),
        checkpoint='checkpoints/vit-small-p14_dinov2-pre_3rdparty_20230426-5641ca5a.pth',
    ),
)

train_cfg = dict(max_epochs=100)
param_scheduler = [
    _base_.param_scheduler[0],
    dict(_base_.param_scheduler[1], end=100),
]
