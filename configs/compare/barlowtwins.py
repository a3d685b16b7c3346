method = dict(
    title='Barlow Twins',
    source='arXiv:2103.03230',
    own='weight 0.0051 of what is off the diagonal',
)
model = dict(
    type='BarlowTwins',
    neck=dict(
        type='NonLinearNeck',
        in_channels='=width',
        hid_channels='=head_width',
        out_channels='=head_width',
        num_layers=3,
        with_avg_pool='=cnn',
        with_last_bn=False,
        with_last_bn_affine=False,
        init_cfg=dict(type='Kaiming', distribution='uniform', layer=['Linear']),
    ),
    head=dict(
        type='LatentCrossCorrelationHead',
        in_channels='=head_width',
        loss=dict(type='CrossCorrelationLoss'),
    ),
)
