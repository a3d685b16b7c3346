"""UPerNet on images with 5 bands of 16 bits, from weights of bam_resnet_bands.py.

    MMBAM_CHECKPOINT=work_dirs/bam_resnet_bands/epoch_10.pth \
        python tools/train.py configs/tiny/upernet_resnet_bands.py

Images are TIFF files in ADE20K's folders. No step changes colors, and only steps that
take any number of bands follow.
"""

_base_ = './upernet_resnet_world.py'

bands = 5
data_root = 'data/bands/ade/ADEChallengeData2016'
# Rounded from: mmbam stats DIR --channels 5 --depth full
data_preprocessor = dict(
    type='mmbam.BandsSegPreprocessor',
    mean=[16510.0] * bands,
    std=[68.0] * bands,
    bgr_to_rgb=False,
    size=(128, 128),
)
model = dict(
    data_preprocessor=data_preprocessor,
    backbone=dict(in_channels=bands),
)

load = dict(type='mmbam.LoadImage', channels=bands, depth='full')
labels = dict(type='LoadAnnotations', reduce_zero_label=True)
train_pipeline = [
    load,
    labels,
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackSegInputs'),
]
test_pipeline = [dict(load, max_errors=0), labels, dict(type='PackSegInputs')]
tiffs = dict(data_root=data_root, img_suffix='.tif')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline, **tiffs))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline, **tiffs))
test_dataloader = val_dataloader
