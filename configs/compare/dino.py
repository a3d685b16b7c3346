method = dict(
    title='DINO',
    source='arXiv:2104.14294',
    own='temperatures 0.1 and 0.04 to 0.07, center 0.9, average from 0.996',
)
model = dict(
    type='mmbam.DINO',
    neck=dict(
        type='mmbam.DINONeck',
        in_channels='=width',
        hid_channels='=head_width',
        bottleneck_channels='=min(256, head_width)',
        out_channels='=8 * head_width',
    ),
    head=dict(
        type='mmbam.BAMHead',
        loss=dict(
            type='mmbam.DINOLoss',
            out_channels='=8 * head_width',
            num_views='=views',
            warmup_epochs='=round(epochs / 10)',  # 30 of 300
        ),
    ),
    teacher=dict(type='mmbam.EMATeacher', momentum='=momentum(0.996)'),
    freeze_prototypes='=1 if epochs > 5 else 0',
)
