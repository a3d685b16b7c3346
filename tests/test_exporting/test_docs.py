"""The examples of docs/export.md run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec

import pytest
import torch

from mmbam.exporting.formats import WRITERS
from mmbam.exporting.source import load_source
from tests.helpers.exported import save_checkpoint
from tests.helpers.run import ROOT

PAGE = (ROOT / 'docs/export.md').read_text('utf-8')
OTHER_PYTHON = os.environ.get('MMBAM_TRANSFORMERS_PYTHON')
BLOCKS = re.findall(r'```python\n(.*?)```', PAGE, re.DOTALL)


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """What the page speaks of: the paper's ViT-S."""
    folder = tmp_path_factory.mktemp('docs')
    vit = dict(type='mmbam.ClsViT', arch='mocov3-small', patch_size=16)
    save_checkpoint(folder / 'epoch_300.pth', vit, teacher=False)
    source = load_source(folder / 'epoch_300.pth')
    names = {'hf': 'vit_hf', 'torchscript': 'vit.pt', 'mmpretrain': 'vit.pth'}
    if find_spec('onnx'):
        names['onnx'] = 'vit.onnx'
    for to, name in names.items():
        WRITERS[to](source, folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize('block', BLOCKS, ids=lambda block: block.split()[1])
def test_an_example_runs(block, files, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    if 'transformers' in block and OTHER_PYTHON:
        check = 'assert embedding.shape == (1, 384)'
        subprocess.run([OTHER_PYTHON, '-c', block + check], check=True)
        return
    for package in ('onnxruntime', 'transformers'):
        if package in block:
            pytest.importorskip(package)
    names: dict = {}
    with torch.no_grad():
        exec(compile(block, 'docs/export.md', 'exec'), names)
        if 'backbone' in names:
            names['backbone'].init_weights()
            names['backbone'].eval()
            names['embedding'] = names['backbone'](torch.zeros(1, 3, 224, 224))[-1]
    lines = [line for line in block.splitlines() if line]
    assert len(lines) <= 5 and names['embedding'].shape == (1, 384)


def test_every_library_has_an_example():
    for library in ('timm', 'transformers', 'onnxruntime', 'torch.jit', 'mmpretrain'):
        assert any(library in block for block in BLOCKS), library
