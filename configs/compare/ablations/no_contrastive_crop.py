"""Table 1 at small scale: without ContrastiveCrop."""

_base_ = 'full.py'

method = dict(title='no ContrastiveCrop')
custom_hooks = []
