"""Fine-tuning of ViT-S with 1 % of the labels; 60.0 % top-1 in the paper.

Make the list as for 10 %, with 1percent.txt or --fraction 0.01.
"""

_base_ = './vit-s16_semi-10percent_100e.py'

train_dataloader = dict(dataset=dict(ann_file='meta/train_1percent.txt'))
