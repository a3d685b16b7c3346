"""BAM on images with 5 bands of 16 bits: the tiny ResNet, a minute on a CPU.

    python benchmarks/bands.py

makes the images, trains, and compares with the upper 8 bits alone.
"""

_base_ = './bam_resnet_32px.py'

data_root = 'data/bands'
bands = 5
# Rounded from: mmbam stats data/bands/train --channels 5 --depth full
data_preprocessor = dict(
    _delete_=True,
    type='mmbam.BandsPreprocessor',
    mean=[16510.0] * bands,
    std=[68.0] * bands,
)
model = dict(backbone=dict(in_channels=bands))

load = dict(type='mmbam.LoadImage', channels=bands, depth='full', bits=16)
# Brightness and contrast of each band; band_dropout is the chance that one is left out.
jitter = dict(strength=(0.1, 0.1), flip=0.5, vertical_flip=0.5, band_dropout=0.0)
train_pipeline = [
    load,
    dict(
        type='mmbam.MultiCrop',
        channels=bands,
        # Where the values lie, so that jitter changes what differs between images.
        value_range=(0x4000, 0x4200),
        views=[
            dict(num=2, size=32, area=(0.5, 1.0), blur=0.0, **jitter),
            dict(num=4, size=16, area=(0.2, 0.5), blur=0.0, **jitter),
        ],
    ),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(load, max_errors=0),
    dict(type='mmbam.ResizeShortSide', scale=32),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=100,
    dataset=dict(
        _delete_=True,
        type='CustomDataset',
        data_root=data_root,
        data_prefix='train',
        pipeline=train_pipeline,
    ),
)
labeled = dict(type='CustomDataset', data_root=data_root, pipeline=test_pipeline)
custom_hooks = [
    dict(type='mmbam.SeedByEpochHook'),
    dict(
        type='mmbam.KNNHook',
        train_dataset=dict(labeled, data_prefix='train'),
        test_dataset=dict(labeled, data_prefix='val'),
        interval=5,
        fraction=1.0,
        batch_size=200,
        num_workers=0,
    ),
]

max_epochs = 10
train_cfg = dict(max_epochs=max_epochs)
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-2,
        begin=0,
        end=1,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        begin=1,
        end=max_epochs,
        convert_to_iter_based=True,
    ),
]
