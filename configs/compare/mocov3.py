method = dict(
    title='MoCo v3',
    source='arXiv:2104.02057',
    own='temperature 1.0 (CNN) or 0.2 (ViT), average from 0.99, predictor',
)
model = dict(
    type='MoCoV3',
    base_momentum='=1 - momentum(0.99)',
    neck=dict(
        type='NonLinearNeck',
        in_channels='=width',
        hid_channels='=head_width',
        out_channels=256,
        num_layers='=2 if cnn else 3',
        with_avg_pool='=cnn',
        with_bias=False,
        with_last_bn_affine=False,
        with_last_bias=False,
    ),
    head=dict(
        type='MoCoV3Head',
        predictor=dict(
            type='NonLinearNeck',
            in_channels=256,
            hid_channels='=head_width',
            out_channels=256,
            num_layers=2,
            with_avg_pool=False,
            with_bias=False,
            with_last_bn='=not cnn',
            with_last_bn_affine=False,
            with_last_bias=False,
        ),
        # The paper scales the loss by twice the temperature.
        loss=dict(type='CrossEntropyLoss', loss_weight='=2.0 if cnn else 0.4'),
        temperature='=1.0 if cnn else 0.2',
    ),
)
