"""Fine-tuning of ViT-S with 10 % of the labels; 73.2 % top-1 in the paper.

    MMBAM_CHECKPOINT=pretrained.pth tools/dist_train.sh \
        configs/benchmarks/semi/vit-s16_semi-10percent_100e.py 8

The list of images must exist. The paper uses SimCLR's (imagenet_subsets in its
repository), which has file names without labels. Add the labels from the list of all
training images, whose lines look like ``n01440764/n01440764_18.JPEG 0``:

    grep -F -f 10percent.txt data/imagenet/meta/train.txt \
        > data/imagenet/meta/train_10percent.txt

Or draw another class-balanced list:

    mmbam split data/imagenet/train \
        data/imagenet/meta/train_10percent.txt --fraction 0.1
"""

_base_ = '../finetune/vit-s16_finetune_150e.py'

train_dataloader = dict(
    batch_size=64,  # x 8 GPUs = 512
    dataset=dict(ann_file='meta/train_10percent.txt'),
)

# Table of experiment configurations (c) of the paper. The text of App. D adds a weight
# decay of 0.3, and says SGD where the table says AdamW. The rest is DeiT's.
optim_wrapper = dict(optimizer=dict(lr=5e-5, weight_decay=0.3))
train_cfg = dict(max_epochs=100)
param_scheduler = [
    dict(scheduler, end=min(scheduler['end'], 100))
    for scheduler in _base_.param_scheduler
]
auto_scale_lr = dict(base_batch_size=512)
