"""Any folder of images without labels, with or without sub-folders.

    tools/dist_train.sh configs/bam/vit-s16_folder_300e.py 8 --auto-scale-lr \
        --cfg-options train_dataloader.dataset.data_root=/path/to/images
"""

_base_ = './vit-s16_300e.py'

train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='mmbam.FolderDataset',
        data_root='data/images',
        pipeline=_base_.train_pipeline,
    )
)
