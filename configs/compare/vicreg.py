"""VICReg, which is Barlow Twins with another loss."""

method = dict(
    title='VICReg',
    source='arXiv:2105.04906',
    own='weights 25, 25, 1 of invariance, variance and covariance',
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
    head=dict(type='mmbam.VICRegHead'),
)
