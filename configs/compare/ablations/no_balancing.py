"""Table 1 at small scale: without balancing, which collapses in the paper."""

_base_ = 'full.py'

method = dict(title='no balancing')
model = dict(head=dict(loss=dict(balanced=False)))
