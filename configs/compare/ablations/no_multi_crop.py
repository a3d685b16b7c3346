"""Table 1 at small scale: without multi-crop, the two large views alone."""

_base_ = 'full.py'

method = dict(title='no multi-crop')
train_pipeline = [dict(step, views=step['views'][:2]) for step in _base_.train_pipeline]
