"""`mmbam convert`: reads one library's names, writes the other's."""

import torch

from mmbam.checkpoints import read_weights
from tests.helpers.run import run_verb


def test_converts_and_counts(tmp_path):
    source, out = tmp_path / 'a.pth', tmp_path / 'b.pth'
    torch.save({'blocks.0.attn.qkv.weight': torch.ones(3, 1)}, source)
    printed, error = run_verb('convert', source, out, '--to', 'mmpretrain')
    assert error is None and 'Wrote 1 weights' in printed
    assert list(read_weights(out)) == ['backbone.layers.0.attn.qkv.weight']


def test_a_missing_file_is_named(tmp_path):
    _, error = run_verb('convert', tmp_path / 'gone.pth', 'b.pth', '--to', 'timm')
    assert error.startswith('mmbam convert: There is no checkpoint file')
