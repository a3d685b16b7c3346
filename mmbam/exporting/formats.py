"""One function for each format: writes the file and says how to open it again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmbam.utils.errors import InputError
from mmbam.utils.files import save_safetensors, save_tensors

from .card import model_card
from .features import Features, difference
from .proof import Reading
from .source import REFUSALS, Source, native_size
from .twin import TOLERANCE, timm_twin, timm_weights

#: Suffix of each format's file; none for a folder.
SUFFIXES = dict(
    mmpretrain='.pth',
    timm='.pth',
    safetensors='.safetensors',
    hf='',
    onnx='.onnx',
    torchscript='.pt',
)
_OUTPUTS = ['embedding', 'map']


def mmpretrain(source: Source, path: Path) -> tuple[Source, list[Reading]]:
    """``state_dict`` with ``backbone.*``, for ``init_cfg`` of any OpenMMLab project."""
    weights = {n: w.contiguous() for n, w in source.backbone.state_dict().items()}
    content = {f'backbone.{name}': value for name, value in weights.items()}
    save_tensors(dict(state_dict=content, meta=dict(mmbam=source.facts)), path)
    return source, [Reading('mmpretrain', dict(backbone=source.cfg), weights)]


def timm(source: Source, path: Path) -> tuple[Source, list[Reading]]:
    """A plain state dict with timm's names."""
    recipe, source = timm_twin(source)
    weights = timm_weights(source.backbone)
    save_tensors(weights, path)
    return source, [Reading('timm', recipe, weights)]


def safetensors(source: Source, path: Path) -> tuple[Source, list[Reading]]:
    """timm's names in a file of safetensors, whose metadata tells of the training."""
    recipe, source = timm_twin(source)
    weights = timm_weights(source.backbone)
    save_safetensors(weights, path, _texts({**source.facts, **recipe, 'format': 'pt'}))
    return source, [Reading('timm', recipe, weights)]


def hf(source: Source, path: Path) -> tuple[Source, list[Reading]]:
    """A folder as on the Hugging Face Hub, for timm and transformers."""
    recipe, source = timm_twin(source)
    if recipe.get('gelu'):
        raise InputError(
            "timm's create_model, which opens such folders, cannot build CAFormer with "
            'GELU: use --to mmpretrain, timm, safetensors, onnx or torchscript.'
        )
    weights, facts = timm_weights(source.backbone), source.facts
    path.mkdir(parents=True)
    save_safetensors(weights, path / 'model.safetensors', _texts(facts, format='pt'))
    # timm's numbers are of images between 0 and 1, OpenMMLab's between 0 and 255.
    scaled = {
        key: [round(value / 255, 6) for value in facts[key]]
        for key in ('mean', 'std')
        if facts.get(key)
    }
    config = dict(
        architecture=recipe['architecture'],
        num_classes=0,
        num_features=source.expected[0][0].shape[1],
        model_args=recipe['model_args'],
        pretrained_cfg=dict(
            input_size=[3, source.size, source.size],
            # If so, timm builds the network for this size and not for 224.
            fixed_input_size=bool(native_size(source.backbone)) or not source.dynamic,
            num_classes=0,
            interpolation='bicubic',
            crop_pct=1.0,
            **scaled,
        ),
    )
    pool = recipe['model_args'].get('global_pool')
    if pool is not None:
        config['global_pool'] = pool
    (path / 'config.json').write_text(json.dumps(config, indent=2) + '\n', 'utf-8')
    (path / 'README.md').write_text(model_card(source, recipe), 'utf-8')
    return source, [
        Reading('timm', {}, weights),
        Reading('transformers', {}, weights),
    ]


def onnx(source: Source, path: Path) -> tuple[Source, list[Reading]]:
    """A graph of any batch size from ``images`` to ``embedding`` and ``map``."""
    for package in ('onnx', *(['onnxscript'] if _NEW_EXPORTER else [])):
        if util.find_spec(package) is None:
            raise InputError(
                f"ONNX needs the package {package}: pip install 'mmbam[export]'"
            )
    source, _ = _traced(source)
    names = ['batch', 'height', 'width']
    axes = {
        'images': dict(zip((0, 2, 3) if source.dynamic else (0,), names)),
        'embedding': {0: 'batch'},
        'map': dict(
            zip((0, 2, 3) if source.dynamic else (0,), ['batch', 'rows', 'columns'])
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of values that tracing keeps, see _traced
        torch.onnx.export(
            Features(source.backbone),
            (_example(source),),
            str(path),
            input_names=['images'],
            output_names=_OUTPUTS,
            dynamic_axes=axes,
            # From 17 on a norm is an operator, with which ONNX Runtime 1.31 crashes if
            # the norm has no bias.
            opset_version=16,
            **(dict(dynamo=False) if _NEW_EXPORTER else {}),
        )
    from onnx import helper, load, save

    model = load(str(path))
    helper.set_model_props(model, _texts(source.facts))
    save(model, str(path))
    return source, [Reading('onnxruntime', {})]


def torchscript(source: Source, path: Path) -> tuple[Source, list[Reading]]:
    """A traced module from images to a pair of embedding and map."""
    source, traced = _traced(source)
    extra: Any = {'mmbam.json': json.dumps(source.facts)}  # torch's type is too narrow
    torch.jit.save(traced, str(path), _extra_files=extra)
    weights = {n: w.contiguous() for n, w in source.backbone.state_dict().items()}
    return source, [Reading('torch', dict(prefix='backbone.'), weights)]


WRITERS: dict[str, Callable[[Source, Path], tuple[Source, list[Reading]]]] = dict(
    mmpretrain=mmpretrain,
    timm=timm,
    safetensors=safetensors,
    hf=hf,
    onnx=onnx,
    torchscript=torchscript,
)
_NEW_EXPORTER = tuple(int(n) for n in torch.__version__.split('.')[:2]) >= (2, 6)


def _example(source: Source) -> Tensor:
    """Images to trace: of no size that the network could take for granted."""
    images = source.images[1]
    if not source.dynamic:
        return images
    step = images.shape[-1] - source.size
    return torch.cat([images, images[..., -step:]], dim=-1)


@torch.no_grad()
def _traced(source: Source) -> tuple[Source, torch.jit.ScriptModule]:
    """Trace the network, for images of one size alone if others come out wrong."""
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            traced = torch.jit.trace(
                Features(source.backbone), (_example(source),), check_trace=False
            )
        if _follows(traced, source):
            return source, traced
        if not source.dynamic:
            raise InputError(
                f'{source.facts["network"]} cannot be traced: it gives other features '
                'for other images.'
            )
        source = source.fixed()


def _follows(traced: torch.jit.ScriptModule, source: Source) -> bool:
    """Whether a traced network gives the features of images of all sizes."""
    try:
        return all(
            difference(one, other) <= TOLERANCE
            for images, expected in zip(source.images, source.expected)
            for one, other in zip(traced(images), expected)
        )
    except REFUSALS:
        return False


def _texts(facts: dict[str, Any], **more: str) -> dict[str, str]:
    """Metadata of files are texts."""
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in {**facts, **more}.items()
    }
