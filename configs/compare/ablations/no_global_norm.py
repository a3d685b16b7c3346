"""Table 1 at small scale: without global normalization."""

_base_ = 'full.py'

method = dict(title='no global normalization')
model = dict(head=dict(loss=dict(global_norm=False)))
