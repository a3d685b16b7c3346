"""Table 1 without multi-crop: the two global views alone."""

_base_ = '../vit-s16_150e.py'

train_pipeline = [
    dict(step, views=step['views'][:2]) if step['type'] == 'mmbam.MultiCrop' else step
    for step in _base_.train_pipeline
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
model = dict(head=dict(loss=dict(num_views=2)))
