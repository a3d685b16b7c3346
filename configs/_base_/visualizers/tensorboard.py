"""The runtime, with curves in TensorBoard too (``pip install tensorboard``).

Name this file in ``_base_`` where a config names ``default_runtime.py``. A config that
inherits from a whole config, as ``_base_ = './vit-s16_300e.py'``, takes the last line
below instead: mmengine wants each setting in one base alone.
"""

_base_ = '../default_runtime.py'

vis_backends = [dict(type='LocalVisBackend'), dict(type='TensorboardVisBackend')]
visualizer = dict(vis_backends=vis_backends)
