method = dict(
    title='BYOL',
    source='arXiv:2006.07733',
    own='cosine loss, average from 0.99, predictor',
)
model = dict(
    type='BYOL',
    base_momentum='=1 - momentum(0.99)',
    neck=dict(
        type='NonLinearNeck',
        in_channels='=width',
        hid_channels='=head_width',
        out_channels=256,
        num_layers=2,
        with_avg_pool='=cnn',
        with_bias=True,
        with_last_bn=False,
    ),
    head=dict(
        type='LatentPredictHead',
        loss=dict(type='CosineSimilarityLoss'),
        predictor=dict(
            type='NonLinearNeck',
            in_channels=256,
            hid_channels='=head_width',
            out_channels=256,
            num_layers=2,
            with_avg_pool=False,
            with_bias=True,
            with_last_bn=False,
        ),
    ),
)
