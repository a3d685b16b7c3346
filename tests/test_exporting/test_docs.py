"""The examples of docs/export.md run as they stand."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest
import torch

from mmbam.exporting.formats import WRITERS
from mmbam.exporting.source import load_source
from tests.helpers.exported import save_checkpoint
from tests.helpers.run import ROOT
from tests.helpers.transformers_env import need_transformers, run_there

PAGE = (ROOT / 'docs/export.md').read_text('utf-8')
BLOCKS = re.findall(r'```python\n(.*?)```', PAGE, re.DOTALL)


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """What the page speaks of: the paper's ViT-S."""
    folder = tmp_path_factory.mktemp('docs')
    vit = dict(type='mmbam.ClsViT', arch='mocov3-small', patch_size=16)
    save_checkpoint(folder / 'epoch_300.pth', vit, teacher=False)
    source = load_source(folder / 'epoch_300.pth')
    names = {'hf': 'vit_hf', 'torchscript': 'vit.pt', 'mmpretrain': 'vit.pth'}
    names['safetensors'] = 'vit.safetensors'
    if find_spec('onnx'):
        names['onnx'] = 'vit.onnx'
    for to, name in names.items():
        WRITERS[to](source, folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize('block', BLOCKS, ids=lambda block: block.split()[1])
def test_an_example_runs(block, files, monkeypatch):
    monkeypatch.chdir(files)
    lines = [line for line in block.splitlines() if line]
    assert len(lines) <= 5
    if 'transformers' in block:
        need_transformers()
        check = 'assert embedding.shape == (1, 384) and tokens.shape == (1, 196, 384)'
        assert run_there(f'import os; os.chdir({str(files)!r})\n{block}{check}') == ''
        return
    if 'onnxruntime' in block:
        pytest.importorskip('onnxruntime')
    names: dict = {}
    with torch.no_grad():
        exec(compile(block, 'docs/export.md', 'exec'), names)
        if 'backbone' in names:
            names['backbone'].init_weights()
            names['backbone'].eval()
            names['embedding'] = names['backbone'](torch.zeros(1, 3, 224, 224))[-1]
    assert names['embedding'].shape == (1, 384)


def test_every_library_has_an_example():
    for library in (
        'timm',
        'safetensors',
        'transformers',
        'onnxruntime',
        'torch.jit',
        'mmpretrain',
    ):
        assert any(library in block for block in BLOCKS), library
