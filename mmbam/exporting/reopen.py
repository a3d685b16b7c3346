"""Open an exported file with the library that it is for, in a process of its own.

``python reopen.py REQUEST.json`` imports nothing of mmbam, except to build a network
of mmbam for mmpretrain. It writes the features of the given images to a file.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

#: Exit code if a library is missing.
MISSING = 77


def as_tokens(features: Any, channels_last: bool = False, prefix: int = 0) -> Any:
    """Turn a map (n, c, h, w), or (n, h, w, c), or tokens into tokens (n, h * w, c)."""
    if features.ndim == 3:
        return features[:, prefix:]
    if channels_last:
        return features.reshape(len(features), -1, features.shape[-1])
    flat = features.reshape(*features.shape[:2], -1)
    return flat.swapaxes(1, 2)


def of_timm(network: Any, images: Any) -> tuple[Any, Any]:
    """Embedding and tokens of a network of timm without a classifier."""
    last = getattr(network, 'output_fmt', 'NCHW') == 'NHWC'
    prefix = getattr(network, 'num_prefix_tokens', 0)
    tokens = as_tokens(network.forward_features(images), last, prefix)
    return network(images), tokens


def create_timm(recipe: dict) -> Any:
    """Build the network of timm that a recipe describes."""
    import timm
    from torch.nn import GELU

    # Classes, which a recipe of plain values cannot hold.
    args = dict(recipe['model_args'])
    if recipe.get('gelu'):
        args.update(mlp_act=GELU, act1_layer=GELU)
    return timm.create_model(recipe['architecture'], num_classes=0, **args)


def open_timm(path: str, recipe: dict) -> tuple[Any, Any, str]:
    """A file, or a folder as on the Hugging Face Hub."""
    import timm

    if Path(path).is_dir():
        network = timm.create_model(f'local-dir:{path}', pretrained=True)
    else:
        network = create_timm(recipe)
        timm.models.load_checkpoint(network, path, strict=True)
    network.eval()
    return lambda images: of_timm(network, images), network, ''


def open_transformers(path: str, recipe: dict) -> tuple[Any, Any, str]:
    """A folder as on the Hugging Face Hub."""
    from transformers import AutoModel

    network = AutoModel.from_pretrained(path).eval()
    last = getattr(network.timm_model, 'output_fmt', 'NCHW') == 'NHWC'
    prefix = getattr(network.timm_model, 'num_prefix_tokens', 0)

    def run(images: Any) -> tuple[Any, Any]:
        output = network(images)
        return output.pooler_output, as_tokens(output.last_hidden_state, last, prefix)

    return run, network, 'timm_model.'


def open_mmpretrain(path: str, recipe: dict) -> tuple[Any, Any, str]:
    """A file with ``backbone.*``, as OpenMMLab's ``init_cfg`` reads it."""
    import mmpretrain.models  # noqa: F401
    from mmengine.registry import MODELS, init_default_scope
    from mmengine.runner import load_checkpoint
    from torch import nn

    init_default_scope('mmpretrain')
    model = nn.Module()
    model.backbone = network = MODELS.build(recipe['backbone'])
    load_checkpoint(model, path, strict=True)
    from mmbam.models import embedding
    from mmbam.models.backbones.anatomy import patch_tokens

    def run(images: Any) -> tuple[Any, Any]:
        return embedding(network, images), as_tokens(patch_tokens(network, images))

    network.eval()
    return run, network, ''


def open_torch(path: str, recipe: dict) -> tuple[Any, Any, str]:
    """A file of TorchScript."""
    import torch

    network = torch.jit.load(path)

    def run(images: Any) -> tuple[Any, Any]:
        embedding, maps = network(images)
        return embedding, as_tokens(maps)

    return run, network, recipe['prefix']


def open_onnxruntime(path: str, recipe: dict) -> tuple[Any, Any, str]:
    """A file of ONNX, whose weights have no names to compare."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])

    def run(images: Any) -> tuple[Any, Any]:
        embedding, maps = session.run(None, {'images': images.numpy()})
        return embedding, as_tokens(maps)

    return run, None, ''


def digests(weights: Any, prefix: str = '') -> dict[str, str]:
    """SHA-256 of each weight by name, without a prefix."""
    return {
        name.removeprefix(prefix): hashlib.sha256(
            value.detach().contiguous().numpy().tobytes()
        ).hexdigest()
        for name, value in weights.items()
    }


def answer(path: str) -> None:
    """Do what a file of :func:`mmbam.exporting.proof.prove` asks for."""
    request = json.loads(Path(path).read_text('utf-8'))
    library = request['library']
    run, network, prefix = globals()[f'open_{library}'](
        request['path'], request['recipe']
    )
    import torch

    found = {}
    with np.load(request['images']) as batches, torch.no_grad():
        for key in batches.files:
            embedding, tokens = run(torch.from_numpy(batches[key]))
            found[f'embedding{key}'] = np.asarray(embedding)
            found[f'tokens{key}'] = np.asarray(tokens)
    np.savez(request['found'], **found)
    report = dict(
        version=sys.modules[library].__version__,
        weights=network and digests(network.state_dict(), prefix),
    )
    Path(request['report']).write_text(json.dumps(report), 'utf-8')


def main() -> None:
    """Answer in a process of its own."""
    del sys.path[0]  # this folder, whose files must not pass for libraries
    try:
        answer(sys.argv[1])
    except ImportError as error:
        print(' '.join(str(error).split()), file=sys.stderr)
        sys.exit(MISSING)


if __name__ == '__main__':
    main()
