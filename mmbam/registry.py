"""The registries of scope ``mmbam``.

Their parents are mmengine's root registries and they name the modules to import,
so ``type='mmbam.X'`` resolves from a config of any OpenMMLab project without
``custom_imports``.
"""

from mmengine import registry as root

MODELS = root.Registry(
    'model',
    scope='mmbam',
    parent=root.MODELS,
    locations=['mmbam.models', 'mmbam.peers'],
)
DATASETS = root.Registry(
    'dataset', scope='mmbam', parent=root.DATASETS, locations=['mmbam.datasets']
)
TRANSFORMS = root.Registry(
    'transform',
    scope='mmbam',
    parent=root.TRANSFORMS,
    locations=['mmbam.datasets.transforms'],
)
HOOKS = root.Registry(
    'hook', scope='mmbam', parent=root.HOOKS, locations=['mmbam.engine']
)
LOOPS = root.Registry(
    'loop', scope='mmbam', parent=root.LOOPS, locations=['mmbam.engine']
)
OPTIM_WRAPPERS = root.Registry(
    'optim_wrapper',
    scope='mmbam',
    parent=root.OPTIM_WRAPPERS,
    locations=['mmbam.engine'],
)
OPTIM_WRAPPER_CONSTRUCTORS = root.Registry(
    'optim_wrapper_constructor',
    scope='mmbam',
    parent=root.OPTIM_WRAPPER_CONSTRUCTORS,
    locations=['mmbam.engine'],
)
