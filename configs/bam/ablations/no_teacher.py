"""Table 1 without a teacher."""

_base_ = '../vit-s16_150e.py'

# App. C: without a teacher, batch norm after every layer of the projector.
model = dict(teacher=None, neck=dict(norm_cfg=dict(type='BN1d')))
