method = dict(title='SimCLR', source='arXiv:2002.05709', own='temperature 0.1')
model = dict(
    type='SimCLR',
    neck=dict(
        type='NonLinearNeck',
        in_channels='=width',
        hid_channels='=head_width',
        out_channels=128,
        num_layers=2,
        with_avg_pool='=cnn',
    ),
    head=dict(
        type='ContrastiveHead',
        loss=dict(type='CrossEntropyLoss'),
        temperature=0.1,
    ),
)
