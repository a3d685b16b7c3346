"""Table 1 without global normalization: one matrix for each pair of views."""

_base_ = '../vit-s16_150e.py'

model = dict(head=dict(loss=dict(global_norm=False)))
