"""Table 1 without ContrastiveCrop."""

_base_ = '../vit-s16_150e.py'

custom_hooks = [
    hook for hook in _base_.custom_hooks if hook['type'] != 'mmbam.LocalizeHook'
]
