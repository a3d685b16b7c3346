"""What the config in a checkpoint may name: backbones and their layers, nothing else.

Such a config is not its reader's. mmengine imports whatever a dotted name stands for,
in any argument that it looks up, and timm fetches networks from addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmengine.registry import MODELS, Registry, init_default_scope

from mmbam.utils.errors import InputError

_BACKBONES = (
    'mmpretrain.models.backbones.',
    'mmpretrain.models.selfsup.',
    'mmbam.models.backbones.',
)
_LAYERS = (
    'torch.nn.', 'mmcv.cnn.', 'mmengine.model.', 'mmpretrain.models.utils.',
    'mmbam.models.', *_BACKBONES,
)  # fmt: skip
#: Arguments by which a network would fetch or open a file.
LOADING = (
    'init_cfg', 'pretrained', 'pretrained_cfg', 'pretrained_cfg_overlay',
    'checkpoint_path', 'cache_dir', 'scriptable', 'exportable', 'no_jit', '_scope_',
)  # fmt: skip


def stored_backbone(config: Mapping[str, Any], path: str | Path) -> dict | None:
    """Take the backbone out of the config in a checkpoint.

    Args:
        config (Mapping): The config, see :func:`read_checkpoint`.
        path (str | Path): The checkpoint, for the error.

    Returns:
        dict | None: Config of the backbone without arguments that open files, or None
        if there is none.

    Raises:
        InputError: It names what is no backbone, or no layer of one.
    """
    model = config.get('model')
    backbone = model.get('backbone') if isinstance(model, Mapping) else None
    if not isinstance(backbone, Mapping):
        return None
    init_default_scope('mmpretrain')
    if not _is_in(_BACKBONES, backbone.get('type')):
        raise _refusal(path, backbone.get('type'), 'no backbone of mmpretrain or mmbam')
    return _checked(backbone, path)


def without_loading(node: Mapping) -> dict:
    """Leave out the arguments by which a network would fetch or open a file."""
    return {key: value for key, value in node.items() if key not in LOADING}


def _checked(node: Any, path: str | Path, key: str = '') -> Any:
    if isinstance(node, Mapping):
        kept = without_loading(node)
        return {word: _checked(value, path, word) for word, value in kept.items()}
    if isinstance(node, (list, tuple)):
        return type(node)(_checked(value, path) for value in node)
    # Names of networks in timm have dots.
    leads_away = ':/' if key == 'model_name' else ':/.'
    suspect = isinstance(node, str) and any(sign in node for sign in leads_away)
    if (key == 'type' or suspect) and not _is_in(_LAYERS, node):
        raise _refusal(path, node, 'no layer or backbone of mmpretrain or mmbam')
    return node


def _refusal(path: str | Path, name: Any, what: str) -> InputError:
    return InputError(
        f'The config in {str(path)!r} names {name!r}, which is {what}: name a config '
        'that you trust with --config.'
    )


def _is_in(rooms: tuple[str, ...], name: Any) -> bool:
    """Whether a name is that of a registered class in one of these rooms."""
    if not isinstance(name, str):
        return False
    # Not Registry.get, which imports whatever a name leads to.
    scope, _, bare = name.rpartition('.')
    found = [
        registry.module_dict[bare]
        for registry in _family(MODELS)
        if bare in registry.module_dict and scope in ('', registry.scope)
    ]
    return bool(found) and all(
        getattr(kind, '__module__', '').startswith(rooms) for kind in found
    )


def _family(registry: Registry) -> Iterator[Registry]:
    yield registry
    for child in registry.children.values():
        yield from _family(child)
