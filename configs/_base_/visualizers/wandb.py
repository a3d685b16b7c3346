"""The default runtime with curves in Weights & Biases as well.

Needs ``pip install wandb`` and a login. Used in the same way as ``tensorboard.py``.
"""

_base_ = '../default_runtime.py'

vis_backends = [
    dict(type='LocalVisBackend'),
    dict(type='WandbVisBackend', init_kwargs=dict(project='mmbam')),
]
visualizer = dict(vis_backends=vis_backends)
