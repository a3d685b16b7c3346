_base_ = [
    '../_base_/datasets/imagenet_2x224_6x96.py',
    '../_base_/schedules/adamw_300e.py',
    '../_base_/default_runtime.py',
]

model = dict(
    type='mmbam.BAM',
    # App. C: sine-cosine positions, frozen patch projection, as in MoCo v3, with its
    # ViT-S of 12 heads. MoCoV3ViT, but the last block computes [cls] alone in training.
    backbone=dict(
        type='mmbam.ClsViT',
        arch='mocov3-small',
        img_size=224,
        patch_size=16,
        stop_grad_conv1=True,
        out_type='cls_token',
    ),
    # With a teacher no batch norm anywhere.
    neck=dict(
        type='mmbam.BAMNeck',
        in_channels=384,
        hid_channels=4096,
        out_channels=4096,
        num_layers=3,
        act_cfg=dict(type='GELU'),
    ),
    head=dict(
        type='mmbam.BAMHead',
        loss=dict(
            type='mmbam.BAMLoss',
            num_views=8,
            num_target_views=2,
            tau=0.1,
            tau_b=0.05,
            sinkhorn_iters=3,
        ),
    ),
    teacher=dict(type='mmbam.EMATeacher', momentum=0.995, end_momentum=1.0),
)
