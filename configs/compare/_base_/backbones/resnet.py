"""``--backbone resnet`` of ``mmbam compare``: for images of about 32 px, on CPU."""

model = dict(
    backbone=dict(
        # A stem of 3 x 3: ImageNet's would leave 8 x 8 of 32 x 32 positions.
        type='ResNet_CIFAR',
        depth=18,
        stem_channels=16,
        base_channels=16,
        num_stages=3,
        strides=(2, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        # Runs are too short for blocks that start as the identity.
        zero_init_residual=False,
    )
)
