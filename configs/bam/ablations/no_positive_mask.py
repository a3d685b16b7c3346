"""Table 1 without positive masking."""

_base_ = '../vit-s16_150e.py'

model = dict(head=dict(loss=dict(positive_mask=None)))
