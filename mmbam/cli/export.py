"""Write a backbone for another library, and prove that it gives the same features."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .arguments import add_options_argument, add_source_arguments

#: Those of mmbam.exporting, which takes seconds to import.
FORMATS = ('mmpretrain', 'timm', 'safetensors', 'hf', 'onnx', 'torchscript')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('checkpoint', help='file to read; nothing in it is run')
    parser.add_argument(
        '--to', choices=FORMATS, required=True, help='library or format to write for'
    )
    parser.add_argument(
        '--out', help='file to write, folder for hf (default: beside the checkpoint)'
    )
    add_source_arguments(parser)
    parser.add_argument(
        '--config', help='config with the backbone (default: the one in the checkpoint)'
    )
    parser.add_argument(
        '--model', metavar='NAME', help='network of timm to use in place of a config'
    )
    parser.add_argument(
        '--size',
        type=int,
        help="side of the images in pixels (default: the network's own, or 224)",
    )
    parser.add_argument(
        '--license', help='license of the weights, for the model card (default: none)'
    )
    parser.add_argument(
        '--python',
        help='Python of another environment whose libraries open the file again '
        '(default: this one)',
    )
    add_options_argument(parser)


def run(args: argparse.Namespace) -> tuple[Path, dict[str, Any]] | None:
    from mmengine.dist import is_main_process

    from mmbam.exporting import export_backbone

    if not is_main_process():
        return None
    path, certificate = export_backbone(
        args.checkpoint,
        args.to,
        args.out,
        config=args.config,
        options=args.cfg_options,
        source=args.source,
        size=args.size,
        license=args.license,
        python=args.python,
        prefix=args.prefix,
        model=args.model,
    )
    for library, one in certificate['libraries'].items():
        if one['result'] == 'verified':
            worst = max(
                max(pair['embedding'], pair['tokens']) for pair in one['comparisons']
            )
            shapes = ' and '.join(
                'x'.join(map(str, pair['images'])) for pair in one['comparisons']
            )
            print(
                f'Verified with {library} {one["version"]}: images {shapes}, largest '
                f'difference {worst:.1e}.'
            )
        else:
            print(f'Not verified with {library} ({one["reason"]}): {one["advice"]}.')
    sizes = certificate['sizes']
    sizes = 'any size' if sizes == 'any' else f'{sizes} pixels'
    role = certificate['source']['weights']
    print(f'Wrote the {role} to {path}; it takes images of {sizes}.')
    opened_as = certificate['libraries'].get('timm', {}).get('opened_as')
    if opened_as:  # a file, which does not say how many heads its network has
        print(f'Its network is {_call(opened_as)}.')
    return path, certificate


def _call(recipe: dict[str, Any]) -> str:
    """The call by which timm builds the network of a file."""
    words = [f'{key}={value!r}' for key, value in recipe['model_args'].items()]
    if recipe.get('gelu'):
        words += [f'{key}=torch.nn.GELU' for key in ('mlp_act', 'act1_layer')]
    name = repr(recipe['architecture'])
    return f'timm.create_model({", ".join([name, "num_classes=0", *words])})'
