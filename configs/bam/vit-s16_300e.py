"""BAM with ViT-S/16; 75.0 % top-1 of the linear probe in the paper (Table 2)."""

_base_ = [
    '../_base_/datasets/imagenet_2x224_6x96.py',
    '../_base_/schedules/adamw_300e.py',
    '../_base_/hooks/pretraining.py',
    '../_base_/default_runtime.py',
]

model = dict(
    type='mmbam.BAM',
    # App. C: sine-cosine positions, as in MoCo v3, whose frozen patch projection and 12
    # heads of ViT-S are used as well. ClsViT is mmpretrain's MoCoV3ViT with a last
    # block that computes only [cls] in training.
    backbone=dict(
        type='mmbam.ClsViT',
        arch='mocov3-small',
        img_size=224,
        patch_size=16,
        stop_grad_conv1=True,
        out_type='cls_token',
    ),
    # App. C: with a teacher, there is no batch norm anywhere.
    neck=dict(
        type='mmbam.BAMNeck',
        in_channels=384,
        hid_channels=4096,  # App. C
        out_channels=4096,  # App. C
        num_layers=3,  # App. C
        act_cfg=dict(type='GELU'),  # App. C
    ),
    head=dict(
        type='mmbam.BAMHead',
        loss=dict(
            type='mmbam.BAMLoss',
            num_views=8,  # Sec. 3.5: 2 global and 6 local views
            num_target_views=2,  # Sec. 3.5: no pairs of local views
            tau=0.1,  # App. F
            tau_b=0.05,  # of the release; the paper's lambda, below 0.1 (App. F)
            sinkhorn_iters=3,  # of the release
        ),
    ),
    # App. C has the teacher, the release its momentum.
    teacher=dict(type='mmbam.EMATeacher', momentum=0.995, end_momentum=1.0),
)
