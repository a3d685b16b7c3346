"""SimCCrop: all crops are centered in the central half of the image.

Peng et al. (CVPR 2022) propose it where finding boxes costs too much.
"""

_base_ = './vit-s16_300e.py'

train_pipeline = [
    dict(step, box='center') if step['type'] == 'mmbam.MultiCrop' else step
    for step in _base_.train_pipeline
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
custom_hooks = [
    hook for hook in _base_.custom_hooks if hook['type'] != 'mmbam.LocalizeHook'
]
