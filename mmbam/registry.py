"""The registries of scope ``mmbam``.

Their parents are mmengine's root registries and they name the modules to import,
so ``type='mmbam.X'`` resolves from a config of any OpenMMLab project without
``custom_imports``.
"""

from mmengine import registry as root


def _child(parent: root.Registry, *rooms: str) -> root.Registry:
    locations = [f'mmbam.{room}' for room in rooms]
    return root.Registry(parent.name, scope='mmbam', parent=parent, locations=locations)


MODELS = _child(root.MODELS, 'models', 'peers')
DATASETS = _child(root.DATASETS, 'datasets')
TRANSFORMS = _child(root.TRANSFORMS, 'datasets.transforms')
HOOKS = _child(root.HOOKS, 'engine')
LOOPS = _child(root.LOOPS, 'engine')
OPTIM_WRAPPERS = _child(root.OPTIM_WRAPPERS, 'engine')
OPTIM_WRAPPER_CONSTRUCTORS = _child(root.OPTIM_WRAPPER_CONSTRUCTORS, 'engine')
