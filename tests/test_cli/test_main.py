"""The command itself: its verbs, its help, and the functions of the same names."""

from __future__ import annotations

import argparse
import inspect
import json
import signal
import subprocess
import sys
from importlib import import_module

import pytest

import mmbam
from mmbam.cli.call import FUNCTIONS
from mmbam.cli.main import GROUPS, VERBS, build_parser
from mmbam.utils.errors import InputError
from tests.helpers.folders import make_config, make_folders
from tests.helpers.run import ROOT, run_verb

# Takes seconds to import, or is not needed to say what there is.
HEAVY = 'torch', 'mmengine', 'mmcv', 'mmpretrain', 'numpy', 'cv2', 'timm', 'matplotlib'


@pytest.mark.parametrize('words', [['--help'], [], ['--version'], ['draw', '--help']])
def test_help_imports_nothing_heavy(words):
    program = (
        'import json, sys\n'
        f'sys.argv = ["mmbam", *{words}]\n'
        'from mmbam.cli.main import main\n'
        'try: main()\n'
        'except SystemExit as stop: assert not stop.code\n'
        'print(json.dumps(sorted(sys.modules)))\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *said, modules = done.stdout.splitlines()
    assert said and not {*HEAVY} & {*json.loads(modules)}


def test_no_verb_imports_anything_heavy_to_know_its_arguments():
    """Thus help, a wrong argument and the signature of the function come at once."""
    program = (
        'import inspect, json, sys\n'
        'import mmbam\n'
        'from mmbam.cli.call import FUNCTIONS\n'
        'found = {}\n'
        'for verb in FUNCTIONS:\n'
        '    function = mmbam.__getattr__(verb)\n'
        '    assert inspect.signature(function) and function.__doc__\n'
        f'    found[verb] = sorted({{*{HEAVY}}} & {{*sys.modules}})\n'
        '    if found[verb]: break\n'
        'print(json.dumps(found))\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {verb: heavy for verb, heavy in found.items() if heavy} == {}
    assert {*found} == {*FUNCTIONS}


def test_choices_are_those_of_the_rooms():
    from mmbam import exporting
    from mmbam.checkpoints import conversion, selection
    from mmbam.cli import arguments, compare, convert, export, transfer
    from mmbam.comparison.method import FOLDER
    from mmbam.engine import launch
    from mmbam.evaluation.transfer import TRANSFER_SETS

    assert arguments.SOURCES == selection.SOURCES
    assert arguments.LAUNCHERS == tuple(launch.VARIABLES)
    assert convert.FORMATS == conversion.FORMATS
    assert export.FORMATS == exporting.FORMATS
    assert transfer.SETS == tuple(TRANSFER_SETS)
    assert compare.CONFIGS.resolve() == FOLDER.resolve()


def test_every_verb_has_a_module_with_both_functions_and_help(capsys):
    for name in FUNCTIONS:
        module = import_module(f'mmbam.cli.{name}')
        assert module.__doc__ and callable(module.run), name
        group, _, verb = name.partition('_')
        words = [group, verb] if group in GROUPS else [name]
        with pytest.raises(SystemExit) as stop:
            build_parser(words).parse_args([*words, '--help'])
        assert stop.value.code == 0
        assert f'usage: mmbam {" ".join(words)} ' in capsys.readouterr().out


def test_arguments_have_a_line_of_help():
    for name in FUNCTIONS:
        parser = argparse.ArgumentParser()
        import_module(f'mmbam.cli.{name}').add_arguments(parser)
        silent = [a.dest for a in parser._actions if not a.help]
        assert not silent, name


def test_no_verb_has_the_name_of_another_thing():
    """But for the demo, whose package can be called."""
    rooms = {path.stem for path in (ROOT / 'mmbam').iterdir()}
    assert rooms & {*FUNCTIONS} == {'demo'}
    assert callable(import_module('mmbam.demo'))
    assert {*FUNCTIONS} <= {*dir(mmbam)}
    with pytest.raises(AttributeError, match='no_such_verb'):
        mmbam.no_such_verb  # noqa: B018


def test_an_unknown_verb_is_named(capsys):
    assert run_verb('nkn')[1] == 2
    said = capsys.readouterr().err
    assert "'nkn'" in said and all(f"'{verb}'" in said for verb in VERBS)


@pytest.mark.parametrize(
    'verb, sentence', [('doctor', 'Stopped.'), ('embed', 'The same command goes on')]
)
def test_ctrl_c_ends_a_verb_without_a_traceback(verb, sentence, monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(f'mmbam.cli.{verb}.run', interrupted)
    words = dict(doctor=[], embed=['a', 'b', '--out', 'c.npz'])[verb]
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert run_verb(verb, *words)[1] == 130
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert sentence in capsys.readouterr().err


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp('made')
    make_folders(root)
    return root, *make_config(root)[:2]


def test_a_function_gives_what_its_verb_prints(made):
    root, config, weights = made
    results = mmbam.knn(
        config,
        str(weights),
        k=[3, 5],
        num_workers=0,
        cfg_options={'val_dataloader.dataset.data_root': str(root / 'test')},
    )
    printed, error = run_verb(
        'knn', config, weights, '--k', 3, 5, '--num-workers', 0, '--cfg-options',
        f'val_dataloader.dataset.data_root={root}/test',
    )  # fmt: skip
    assert error is None and list(results) == [3, 5]
    for k, result in results.items():
        figures = f'{k}-NN: top-1 {result["top1"]:.2f}, top-5 {result["top5"]:.2f}'
        assert figures in printed


def test_a_function_has_the_signature_and_the_help_of_its_verb():
    signature = inspect.signature(mmbam.pretrain)
    images, model, *_ = signature.parameters.values()
    assert images.default is inspect.Parameter.empty
    assert images.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert (model.default, model.kind) == ('resnet18', inspect.Parameter.KEYWORD_ONLY)
    assert signature.parameters['epochs'].annotation is int
    assert 'epochs (int, optional): times through all images.' in mmbam.pretrain.__doc__
    assert inspect.signature(mmbam.doctor).parameters['run'].default is None
    # A place before one that must be filled must be filled, too.
    pack = inspect.signature(mmbam.pack).parameters
    assert pack['images'].default is pack['out'].default is inspect.Parameter.empty
    assert 'local_rank' not in inspect.signature(mmbam.train).parameters


@pytest.mark.parametrize(
    'call, sentence',
    [
        (lambda: mmbam.pretrain('a', 'b'), 'only images can be given .* got 2 values'),
        (lambda: mmbam.knn('a', 'b', 'c'), 'only config and checkpoint can be given'),
        (lambda: mmbam.chain('a'), 'no argument can be given without a name'),
        (lambda: mmbam.knn('a', 'b', config='c'), "argument 'config' is given twice"),
    ],
)
def test_too_many_arguments_get_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        call()
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
    'arguments, sentence',
    [
        (dict(config='a', chekpoint='b'), "no argument 'chekpoint', but .* checkpoint"),
        (dict(config='a'), 'required: checkpoint'),
        (dict(config='a', checkpoint='b', k=['x']), 'k: invalid int value'),
        (dict(config='a', checkpoint='b', source='x'), 'source: invalid choice'),
        (dict(config='no.py', checkpoint='b'), 'Config file not found: no.py'),
        (dict(config='a', checkpoint='b', devices='x'), 'devices: invalid int value'),
    ],
)
def test_a_wrong_call_gets_one_sentence(arguments, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        mmbam.knn(**arguments)
    assert '\n' not in str(caught.value)


def test_functions_of_groups_and_flags(made, tmp_path):
    root, config, weights = made
    out = tmp_path / 'out.txt'
    assert mmbam.split(root=root / 'train', out=out, per_class=2) == [out]
    assert len(out.read_text().splitlines()) == 6
    with pytest.raises(InputError, match='is required'):
        mmbam.split(root=root / 'train', out=out)
    picture = tmp_path / 'a.png'
    arguments = dict(config=config, checkpoint=weights, images=root / 'test')
    assert mmbam.draw_attention(**arguments, num=1, size=16, out=picture) == [picture]
    assert picture.is_file()


@pytest.mark.slow
def test_a_function_on_two_devices_returns_the_result_of_one(made):
    _, config, weights = made
    arguments = dict(config=config, checkpoint=weights, k=[3], num_workers=0)
    assert mmbam.knn(**arguments, devices=2) == mmbam.knn(**arguments)
    with pytest.raises(InputError, match='exit code 1 on 2 devices'):
        mmbam.knn(**{**arguments, 'checkpoint': 'gone.pth'}, devices=2)
