"""Table 1 without balancing, which collapses."""

_base_ = '../vit-s16_150e.py'

model = dict(head=dict(loss=dict(balanced=False)))
