"""The baseline of Table 1. Each config in ablations/ removes one ingredient."""

_base_ = './vit-s16_300e.py'

train_cfg = dict(max_epochs=150)
param_scheduler = [
    dict(scheduler, end=min(scheduler['end'], 150))
    for scheduler in _base_.param_scheduler
]
