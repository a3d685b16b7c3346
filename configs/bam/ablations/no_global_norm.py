_base_ = '../vit-s16_150e.py'

model = dict(head=dict(loss=dict(global_norm=False)))
