"""Distill a frozen network of another architecture (App. C: "any arbitrary teacher").

The teacher is mmpretrain's DINOv2 ViT-S/14. Its published weights are
``vit-small-p14_dinov2-pre_3rdparty_20230426-5641ca5a.pth``; name another place by

    --cfg-options model.teacher.checkpoint=/path/to/that.pth
"""

_base_ = './r50_300e.py'

model = dict(
    # The latents are compared with the teacher's [cls] token, so they have its width.
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
