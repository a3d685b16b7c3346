"""Exports give the features of their source in the libraries that they are for."""

from __future__ import annotations

import json
import sys
from itertools import product

import pytest
import timm
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mmbam.cli.common import run_command
from mmbam.cli.main import build_parser
from mmbam.exporting import FORMATS, export_backbone
from mmbam.exporting.export import CERTIFICATE
from mmbam.exporting.formats import WRITERS
from mmbam.exporting.proof import ProofError, prove
from mmbam.exporting.source import load_source
from mmbam.utils.errors import InputError
from mmbam.utils.files import sha256
from tests.helpers.exported import need, opener, place, save_checkpoint

PAIRS = [
    *product(('vit', 'resnet', 'caformer', 'timm'), FORMATS),
    ('timm_vit', 'timm'),
    ('timm_vit', 'onnx'),
    ('channels_last', 'timm'),
    ('own', 'mmpretrain'),
]
PAIRS.remove(('caformer', 'hf'))  # is refused, see below
# What timm's networks of a fixed grid, and so their files, take.
FIXED = {('vit', 'timm'), ('vit', 'safetensors'), ('vit', 'hf')}
FIXED |= {('timm_vit', 'timm'), ('timm_vit', 'onnx'), ('channels_last', 'timm')}


@pytest.fixture(scope='module')
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp('checkpoints')
    for network in dict(PAIRS):
        save_checkpoint(folder / f'{network}.pth', network)
    return folder


@pytest.mark.parametrize(('network', 'to'), PAIRS)
def test_the_library_finds_the_same_features(
    network, to, checkpoints, tmp_path, in_process
):
    need(to)
    path, certificate = export_backbone(
        checkpoints / f'{network}.pth',
        to,
        place(tmp_path, to),
        size=None if (network, 'timm') in FIXED else 64,
        python=opener(to),
    )
    libraries = certificate['libraries']
    assert path.exists() and ('transformers' in libraries) == (to == 'hf')
    for one in libraries.values():
        assert one['result'] == 'verified'
        shapes = [pair['images'] for pair in one['comparisons']]
        sizes = {tuple(shape[2:]) for shape in shapes}
        assert len(sizes) == (1 if (network, to) in FIXED else 2)
        assert len({shape[0] for shape in shapes}) == 2  # numbers of images
        for pair in one['comparisons']:
            assert pair['embedding'] <= 1e-4 and pair['tokens'] <= 1e-4
    folder = path if to == 'hf' else tmp_path
    written = json.loads((folder / CERTIFICATE).read_text())
    assert list(written.values()) == [certificate]
    assert not [file for file in tmp_path.iterdir() if 'part' in file.name]


def change(weights, name, drop):
    if drop:
        del weights[name]
    else:
        weights[name] = weights[name] + 0.01
    return weights


def spoil(path, to, name, drop=False):
    """Drop or change one weight of a file that was written."""
    if to == 'onnx':
        import onnx

        model = onnx.load(str(path))
        (found,) = [w for w in model.graph.initializer if w.name == name]
        values = onnx.numpy_helper.to_array(found) + 0.01
        found.CopyFrom(onnx.numpy_helper.from_array(values, name))
        onnx.save(model, str(path))
    elif to == 'torchscript':
        module = torch.jit.load(str(path))
        with torch.no_grad():
            dict(module.named_parameters())[name].add_(0.01)
        torch.jit.save(module, str(path))
    elif to in ('safetensors', 'hf'):
        path = path / 'model.safetensors' if to == 'hf' else path
        weights = change(load_file(path), name, drop)
        save_file(weights, path, dict(format='pt'))
    else:
        content = torch.load(path)
        change(content.get('state_dict', content), name, drop)
        torch.save(content, path)


@pytest.mark.parametrize(
    ('to', 'name', 'drop'),
    [
        ('mmpretrain', 'backbone.layers.1.ln1.bias', True),
        ('mmpretrain', 'backbone.layers.1.ln1.bias', False),
        ('timm', 'blocks.1.norm1.bias', True),
        ('timm', 'blocks.1.norm1.bias', False),
        ('safetensors', 'cls_token', True),
        # Adds the same to all scores of a soft-max: no feature shows it.
        ('safetensors', 'blocks.1.attn.qkv.bias', 'key'),
        ('hf', 'norm.weight', False),
        ('hf', 'norm.weight', True),
        ('onnx', 'backbone.layers.1.ln1.bias', False),
        ('torchscript', 'backbone.layers.1.ln1.bias', False),
    ],
)
def test_a_weight_that_is_lost_or_changed_fails_the_proof(
    to, name, drop, checkpoints, tmp_path, in_process, monkeypatch
):
    need(to)
    write = WRITERS[to]

    def spoiled(source, path):
        result = write(source, path)
        if drop == 'key':
            weights = load_file(path)
            weights[name][24:48] += 0.01
            save_file(weights, path)
        else:
            spoil(path, to, name, drop)
        return result

    monkeypatch.setitem(WRITERS, to, spoiled)
    with pytest.raises(ProofError, match='weights|features|cannot use'):
        export_backbone(checkpoints / 'vit.pth', to, place(tmp_path, to))
    assert not list(tmp_path.iterdir())
    if drop != 'key':
        return
    source = load_source(checkpoints / 'vit.pth')
    path = tmp_path / 'x.safetensors'
    source, (reading,) = spoiled(source, path)
    assert prove(source, path, reading._replace(weights=None))['result'] == 'verified'


def test_a_failed_proof_ends_the_command_in_one_sentence(
    checkpoints, tmp_path, in_process, monkeypatch
):
    write = WRITERS['timm']

    def spoiled(source, path):
        result = write(source, path)
        spoil(path, 'timm', 'blocks.1.norm1.bias')
        return result

    monkeypatch.setitem(WRITERS, 'timm', spoiled)
    words = ['export', str(checkpoints / 'vit.pth'), '--to', 'timm']
    args = build_parser(words).parse_args([*words, '--out', str(tmp_path / 'a.pth')])
    with pytest.raises(SystemExit) as stop:  # of a text: exit code 1
        run_command(lambda: args.verb.run(args), name='mmbam export')
    assert stop.value.code.startswith('mmbam export: timm finds other features')
    assert not list(tmp_path.iterdir())


def test_the_command_opens_the_file_in_a_new_process(checkpoints, tmp_path, capsys):
    out = tmp_path / 'new/out.safetensors'
    words = [str(checkpoints / 'vit.pth'), '--to', 'safetensors', '--out', str(out)]
    parser = build_parser(['export', *words])
    args = parser.parse_args(['export', *words, '--source', 'student'])
    path, certificate = args.verb.run(args)
    printed = capsys.readouterr().out
    assert 'Verified with timm' in printed and f'Wrote the student to {out}' in printed
    with safe_open(out, 'pt') as file:
        told = file.metadata()
    assert told['method'] == 'BAM' and told['epochs'] == '7'
    assert json.loads(told['model_args'])['num_heads'] == 4
    assert '/secret' not in (out.parent / CERTIFICATE).read_text()
    assert sha256(out) == certificate['sha256']['out.safetensors']


@pytest.mark.parametrize('network', ['vit', 'caformer'])
def test_the_command_prints_the_call_that_timm_needs(
    network, checkpoints, tmp_path, in_process, capsys
):
    out = tmp_path / 'out.pth'
    words = ['export', str(checkpoints / f'{network}.pth'), '--to', 'timm']
    args = build_parser(words).parse_args([*words, '--out', str(out)])
    args.size = 32
    args.verb.run(args)
    call = capsys.readouterr().out.partition('Its network is ')[2].strip().rstrip('.')
    found = eval(call, dict(timm=timm, torch=torch)).eval()
    found.load_state_dict(torch.load(out))
    source = load_source(checkpoints / f'{network}.pth', size=32)
    (image, *_), ((expected, _), *_) = source.images, source.expected
    with torch.no_grad():
        torch.testing.assert_close(found(image), expected, atol=1e-5, rtol=1e-4)


def test_a_missing_library_leaves_the_file_and_says_what_to_install(
    checkpoints, tmp_path, in_process, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, 'transformers', None)  # importing it fails
    words = ['export', str(checkpoints / 'vit.pth'), '--to', 'hf']
    args = build_parser(words).parse_args([*words, '--out', str(tmp_path / 'hf')])
    path, certificate = args.verb.run(args)
    assert 'Not verified with transformers (import of' in capsys.readouterr().out
    written = json.loads((path / CERTIFICATE).read_text())['model.safetensors']
    assert written['result'] == certificate['result'] == 'not verified'
    assert written['libraries']['timm']['result'] == 'verified'
    assert 'name its Python' in written['libraries']['transformers']['advice']
    # The same place again: the folder is an export, so it is replaced.
    args.license = 'cc-by-4.0'
    args.verb.run(args)
    card = (path / 'README.md').read_text()
    assert 'license: cc-by-4.0' in card and 'imagenet (ImageNet)' in card
    assert '| method | BAM |' in card and '/secret' not in card
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine/thesis.tex').touch()
    with pytest.raises(InputError, match='holds other files'):
        export_backbone(checkpoints / 'vit.pth', 'hf', tmp_path / 'mine')


def test_what_has_no_twin_in_timm_is_said(checkpoints, tmp_path):
    for network, to in (('own', 'timm'), ('caformer', 'hf')):
        with pytest.raises(InputError, match='onnx or torchscript'):
            export_backbone(
                checkpoints / f'{network}.pth', to, tmp_path / 'out', size=64
            )
    with pytest.raises(InputError, match="must end with .onnx, but got 'out'"):
        export_backbone(checkpoints / 'vit.pth', 'onnx', tmp_path / 'out')
    assert not list(tmp_path.iterdir())


def test_weights_that_are_not_finite_are_named(checkpoints, tmp_path):
    weights = torch.load(checkpoints / 'resnet.pth', weights_only=False)
    weights['state_dict']['teacher.backbone.conv1.weight'][0] = float('nan')
    torch.save(weights, tmp_path / 'nan.pth')
    for to in ('timm', 'torchscript'):
        with pytest.raises(InputError, match='nan.pth.* are not finite: its weights'):
            export_backbone(tmp_path / 'nan.pth', to)
    assert len(list(tmp_path.iterdir())) == 1


def test_certificates_of_several_files_share_a_place(checkpoints, tmp_path, in_process):
    for to in ('timm', 'safetensors'):
        export_backbone(checkpoints / 'vit.pth', to, place(tmp_path, to))
    names = json.loads((tmp_path / CERTIFICATE).read_text())
    assert set(names) == {'out.pth', 'out.safetensors'}
