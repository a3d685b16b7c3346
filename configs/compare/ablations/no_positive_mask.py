"""Table 1 at small scale: without positive masking."""

_base_ = 'full.py'

method = dict(title='no positive masking')
model = dict(head=dict(loss=dict(positive_mask=None)))
