"""The default runtime with curves in TensorBoard as well (``pip install tensorboard``).

Use this file in ``_base_`` in place of ``default_runtime.py``. A config that inherits
from a whole config, such as ``_base_ = './vit-s16_300e.py'``, copies the last two lines
instead, because mmengine allows a key in one base only.
"""

_base_ = '../default_runtime.py'

vis_backends = [dict(type='LocalVisBackend'), dict(type='TensorboardVisBackend')]
visualizer = dict(vis_backends=vis_backends)
