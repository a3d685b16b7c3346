"""BAM with a moving average as teacher, and so without batch norm in the projector."""

method = dict(
    title='BAM, teacher',
    source='arXiv:2408.02014',
    own='tau 0.1, tau_B 0.05, 3 iterations of balancing, positives masked; '
    'average from 0.995, no batch norm',
)
model = dict(
    type='mmbam.BAM',
    neck=dict(
        type='mmbam.BAMNeck',
        in_channels='=width',
        hid_channels='=head_width',
        out_channels='=head_width',
        act_cfg=dict(type='="ReLU" if cnn else "GELU"'),
    ),
    head=dict(
        type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views='=views')
    ),
    teacher=dict(type='mmbam.EMATeacher', momentum='=momentum(0.995)'),
)
