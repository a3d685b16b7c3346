"""Every kind of hostile file through every route: none runs anything."""

from __future__ import annotations

import functools
import gc
import http.server
import json
import os
import shutil
import sys
import threading
import warnings
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import pytest
from mmengine.config import Config
from mmengine.runner import Runner

from mmbam.checkpoints.newest import damage
from mmbam.comparison import Settings, worker
from mmbam.comparison.pictures import read_looks
from mmbam.demo.downstream import train_dense
from mmbam.utils.errors import InputError
from tests.helpers.folders import make_config, make_folders
from tests.helpers.hostile import KINDS, write_all
from tests.helpers.run import ROOT, run_verb
from tests.helpers.tiny import VIT, bam_config
from tests.helpers.videos import make_davis
from tests.test_cli.test_train_and_test import CONFIG

PRETRAINED = "\ncustom_hooks = [dict(type='mmbam.PretrainedBackboneHook')]\n"
TIMM = dict(type='mmpretrain.TIMMBackbone', model_name='test_resnet')
SIMCLR = ROOT / 'configs' / 'compare' / 'simclr.py'
SMALL = dict(size=16, batch_size=8, head_width=16, evaluations=1, workers=0)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serve files without a line on each."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """Good data and configs, hostile files, and a server of them."""
    root = tmp_path_factory.mktemp('hostile')
    make_folders(root, train=2, test=2)
    make_config(root)
    make_davis(root / 'davis', lengths=(3,), size=32)
    config = CONFIG.replace('{images}', f'{root}/train')
    config = config.replace('num_classes=2', 'num_classes=3')
    (root / 'train.py').write_text(config)
    (root / 'pretrained.py').write_text(config + PRETRAINED)
    (root / 'files').mkdir()
    files = write_all(root / 'files', str(root / 'mark'))
    handler = functools.partial(Quiet, directory=root / 'files')
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    gc.freeze()  # mmengine's data sets collect garbage each time
    yield root, files, f'http://127.0.0.1:{server.server_port}'
    gc.unfreeze()
    server.shutdown()
    server.server_close()


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A fresh folder for downloads and work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('TORCH_HOME', str(tmp_path))
    monkeypatch.delenv('MMBAM_CHECKPOINT', raising=False)


def train(config, *args, **options) -> str | None:
    if options:
        args += ('--cfg-options', *(f'{k}={v}' for k, v in options.items()))
    return run_verb('train', config, '--work-dir', 'run', *args)[1]


def resume(root, file, address):
    return train(root / 'train.py', '--resume', file)


def load_from(root, file, address):
    return train(root / 'train.py', load_from=file)


def last_checkpoint(root, file, address):
    Path('run').mkdir()
    shutil.copy(file, 'run/epoch_1.pth')
    Path('run/last_checkpoint').write_text(os.path.abspath('run/epoch_1.pth'))
    return train(root / 'train.py', '--resume')


def load_from_http(root, file, address):
    return train(root / 'train.py', load_from=f'{address}/{file.name}')


def resume_http(root, file, address):
    return train(root / 'train.py', '--resume', f'{address}/{file.name}')


def environment_variable(root, file, address):
    os.environ['MMBAM_CHECKPOINT'] = str(file)  # the fixture restores it
    return train(root / 'pretrained.py')


def hook(root, file, address):
    return train(root / 'pretrained.py', **{'custom_hooks.0.checkpoint': file})


def frozen_teacher(root, file, address):
    teacher = dict(type='mmbam.FrozenTeacher', backbone=VIT, checkpoint=str(file))
    return train(write_config(root / 'train.py', **bam_config(teacher=teacher)))


def init_cfg(root, file, address):
    init = {'type': 'Pretrained', 'checkpoint': file}
    options = {f'model.backbone.init_cfg.{k}': v for k, v in init.items()}
    return train(root / 'train.py', **options)


def init_cfg_torchvision(root, file, address):
    """A file in torch's cache under the name that the library looks for."""
    from mmengine.runner.checkpoint import get_torchvision_models

    name = get_torchvision_models()['resnet18'].rpartition('/')[2]
    Path('hub/checkpoints').mkdir(parents=True)
    shutil.copy(file, Path('hub/checkpoints', name))
    return init_cfg(root, 'torchvision://resnet18', address)


def write_config(base, **model) -> str:
    text = f'_base_ = {str(base)!r}\nmodel = dict(_delete_=True, **{model!r})\n'
    Path('other.py').write_text(text)
    return 'other.py'


def timm_in_training(root, file, address):
    model = dict(bam_config(), backbone=dict(TIMM, checkpoint_path=str(file)))
    return train(write_config(root / 'train.py', **model))


def timm_in_evaluation(root, file, address):
    backbone = dict(TIMM, checkpoint_path=str(file))
    config = write_config(root / 'config.py', backbone=backbone)
    return evaluate('knn', config, root / 'weights.pth')


def timm_pretrained(root, file, address):
    backbone = dict(TIMM, pretrained=True, pretrained_cfg=dict(file=str(file)))
    config = write_config(root / 'config.py', backbone=backbone)
    return evaluate('knn', config, root / 'weights.pth')


def evaluate(verb, config, file, *args) -> str | None:
    return run_verb(*verb.split(), config, file, *args)[1]


def of_test(root, file, address):
    return run_verb('test', root / 'train.py', file, '--work-dir', 'run')[1]


def knn(root, file, address):
    return evaluate('knn', root / 'config.py', file)


def cluster(root, file, address):
    return evaluate('cluster', root / 'config.py', file)


def transfer(root, file, address):
    return evaluate('transfer', root / 'config.py', file, f'mine={root}')


def video(root, file, address):
    args = ('--root', root / 'davis', '--out', 'video')
    return evaluate('video', root / 'config.py', file, *args)


def draw_attention(root, file, address):
    return evaluate('draw attention', root / 'config.py', file, root / 'train')


def draw_similarities(root, file, address):
    return evaluate('draw similarities', root / 'config.py', file)


def draw_crops(root, file, address):
    return evaluate('draw crops', root / 'config.py', file)


def embed(root, file, address):
    args = ('--config', root / 'config.py', '--size', 16, '--out', 'out.npz')
    return run_verb('embed', root / 'train', file, *args)[1]


def export(root, file, address):
    args = ('--config', root / 'config.py', '--to', 'timm', '--out', 'out.pth')
    return run_verb('export', file, *args)[1]


def pretrain_init(root, file, address):
    options = [f'model.backbone.{part}_channels=16' for part in ('stem', 'base')]
    args = ('--epochs', 1, '--out', 'run', '--init', file, '--cfg-options', *options)
    return run_verb('pretrain', root / 'train', *args)[1]


def convert(root, file, address):
    args = (file, 'out/new.pth', '--to', 'timm')
    printed, error = run_verb('convert', *args)
    return error or printed  # weights alone may be left of a hostile file


def compare_continued(root, file, address):
    folder = Path('compare')
    folder.mkdir()
    shutil.copy(file, 'compare/epoch_1.pth')
    (folder / 'last_checkpoint').write_text(os.path.abspath('compare/epoch_1.pth'))
    settings = asdict(Settings(str(root), epochs=1, **SMALL))
    spec = dict(seed=0, settings=settings, folder='compare')
    Path('spec.json').write_text(json.dumps(spec))
    with mock.patch.object(sys, 'argv', ['', 'spec.json', str(SIMCLR)]):
        with pytest.raises(SystemExit):
            worker.main()
    return json.loads((folder / 'error.json').read_text())['error']


def compare_looks(root, file, address):
    shutil.copy(file, 'looks.pt')
    settings = Settings(str(root), epochs=2, **SMALL)
    return sentence_of(read_looks, settings, {'BAM': Path('.')})


def chain_outcome(root, file, address):
    """Results of a detector that the chain finds in its folder."""
    for name in ('outcome.pkl', 'outcome.pth'):
        shutil.copy(file, name)
    cfg = Config(dict(custom_hooks=[], visualizer={}, train_cfg=None))
    goes_on = InputError('The file has no outcome of these settings: it trains anew.')
    with mock.patch.object(Runner, 'from_cfg', side_effect=goes_on):
        return sentence_of(train_dense, cfg, 'none.pth', Path('.'))


def sentence_of(function, *args) -> str:
    try:
        function(*args)
    except InputError as error:
        return str(error)
    pytest.fail('it must refuse the file')


ROUTES = [
    *(resume, load_from, last_checkpoint, load_from_http, resume_http),
    *(environment_variable, hook, frozen_teacher, init_cfg, init_cfg_torchvision),
    *(timm_in_training, timm_in_evaluation, timm_pretrained, of_test, knn, cluster),
    *(transfer, video, draw_attention, draw_similarities, draw_crops, convert),
    *(compare_continued, compare_looks, chain_outcome, embed, export, pretrain_init),
]


# Two readers look into all files, that of weights and that of training checkpoints. All
# kinds take these routes: a file, a download, and a library that loads by itself.
READERS = (resume, load_from_http, timm_in_training, knn, convert)
# A route that passes a reader by meets another one, which one of these fools.
TELLING = (
    *('plain_pickle', 'torch_zip', 'legacy', 'script_with_a_false_end', 'tar'),
    *('safetensors_pickle', 'config_in_meta'),
)
CASES = [(k, r) for k in KINDS for r in ROUTES if k in TELLING or r in READERS]


@pytest.mark.slow
@pytest.mark.parametrize('kind, route', CASES, ids=lambda c: getattr(c, '__name__', c))
def test_a_hostile_file_runs_nothing(place, alone, kind, route):
    root, files, address = place
    mark = root / 'mark'
    said, error = None, None
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            said = route(root, files[kind], address)
        except Exception as raised:
            error = raised
    ran = mark.exists()
    if ran:
        shutil.rmtree(mark) if mark.is_dir() else mark.unlink()
    assert not ran, 'the file ran code'
    # That text is left out; what remains is a good file of another network.
    if kind == 'config_in_meta' and (
        said is None or 'loading state_dict' in str(error)
    ):
        return
    if error is not None:
        raise error
    if route is last_checkpoint and said is None:  # passed over as damaged
        assert damage(files[kind])
        return
    assert isinstance(said, str), 'it must end with a sentence'
    assert len(said.strip().splitlines()) == 1, said
