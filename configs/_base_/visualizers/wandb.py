"""The runtime, with curves in Weights & Biases too (``pip install wandb``, a login).

To be used as ``tensorboard.py`` in this folder.
"""

_base_ = '../default_runtime.py'

vis_backends = [
    dict(type='LocalVisBackend'),
    dict(type='WandbVisBackend', init_kwargs=dict(project='mmbam')),
]
visualizer = dict(vis_backends=vis_backends)
