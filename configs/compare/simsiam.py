method = dict(
    title='SimSiam',
    source='arXiv:2011.10566',
    own='cosine loss, predictor of a quarter width',
)
model = dict(
    type='SimSiam',
    neck=dict(
        type='NonLinearNeck',
        in_channels='=width',
        hid_channels='=head_width',
        out_channels='=head_width',
        num_layers=3,
        with_avg_pool='=cnn',
        with_last_bn_affine=False,
    ),
    head=dict(
        type='LatentPredictHead',
        loss=dict(type='CosineSimilarityLoss'),
        predictor=dict(
            type='NonLinearNeck',
            in_channels='=head_width',
            hid_channels='=head_width // 4',
            out_channels='=head_width',
            with_avg_pool=False,
            with_last_bn=False,
            with_last_bias=True,
        ),
    ),
)
