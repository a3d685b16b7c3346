method = dict(
    title='SwAV',
    source='arXiv:2006.09882',
    own='3000 prototypes, epsilon 0.05, temperature 0.1, queue of 3840',
)
model = dict(
    type='SwAV',
    neck=dict(
        type='="SwAVNeck" if cnn else "mmbam.VectorSwAVNeck"',
        in_channels='=width',
        hid_channels='=head_width',
        out_channels=128,
        with_avg_pool='=cnn',
    ),
    head=dict(
        type='SwAVHead',
        loss=dict(
            type='SwAVLoss',
            feat_dim=128,
            epsilon=0.05,
            temperature=0.1,
            num_crops='=[2, views - 2] if views > 2 else [2]',
        ),
    ),
)
custom_hooks = [
    dict(
        type='SwAVHook',
        priority='VERY_HIGH',
        batch_size='=batch_size',
        # The queue starts after 15 of 200 epochs, the prototypes move after the first.
        epoch_queue_starts='=max(1, round(0.075 * epochs))',
        crops_for_assign=[0, 1],
        feat_dim=128,
        queue_length='=max(3840, batch_size)',
        frozen_layers_cfg=dict(prototypes='=epoch_steps'),
    )
]
