"""Reading: every tensor arrives, and nothing in the file ever runs."""

import builtins
import io
import os
import pickle
import tarfile
import zipfile
from collections import OrderedDict
from typing import Tuple  # noqa: UP035 (TorchScript of torch 2.1 needs it)

import numpy as np
import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.logging import HistoryBuffer
from torch import nn

from mmbam.checkpoints import read_weights
from mmbam.checkpoints.unpickling import InertUnpickler

WEIGHTS = OrderedDict(a=torch.arange(6.0).view(2, 3).t(), b=torch.ones(2).half())


def equal(read, expected=WEIGHTS):
    return read.keys() == expected.keys() and all(
        torch.equal(read[name], expected[name]) for name in expected
    )


class Runs:
    """Pickles to a call of the given function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


class Own:
    """A class of somebody's own, of the kinds that pickle treats differently."""

    def __init__(self, value):
        self.value = value


class OwnList(list):
    pass


class OwnDict(dict):
    pass


@pytest.mark.parametrize('wrapper', [None, 'state_dict', 'model'])
def test_plain_and_wrapped_state_dicts(tmp_path, wrapper):
    content = {wrapper: WEIGHTS, 'epoch': 3} if wrapper else WEIGHTS
    torch.save(content, tmp_path / 'a.pth')
    assert equal(read_weights(tmp_path / 'a.pth'))


def test_student_and_teacher_keep_their_names_apart(tmp_path):
    torch.save(dict(student=WEIGHTS, teacher=WEIGHTS), tmp_path / 'a.pth')
    expected = {f'{r}.{n}': WEIGHTS[n] for r in ('student', 'teacher') for n in 'ab'}
    assert equal(read_weights(tmp_path / 'a.pth'), expected)


def test_files_with_other_objects(tmp_path):
    """What mmengine's runner saves, and worse."""
    content = dict(
        meta=dict(cfg=ConfigDict(a=1), seed=np.int64(3)),
        message_hub=dict(log_scalars=dict(loss=HistoryBuffer([1.0, 2.0], [1, 1]))),
        other=[np.arange(3), Own(1), OwnList([1, 2]), OwnDict(a=1), {Own(2)}],
        state_dict=OrderedDict(**WEIGHTS, c=nn.Parameter(torch.zeros(1))),
    )
    torch.save(content, tmp_path / 'a.pth')
    with pytest.raises(pickle.UnpicklingError):  # or the test would prove nothing
        torch.load(tmp_path / 'a.pth', weights_only=True)
    weights = read_weights(tmp_path / 'a.pth')
    assert equal(weights, dict(**WEIGHTS, c=torch.zeros(1)))
    assert not weights['c'].requires_grad


def test_files_of_the_old_format(tmp_path):
    torch.save(
        dict(state_dict=WEIGHTS, other=Own(1)),
        tmp_path / 'a.pth',
        _use_new_zipfile_serialization=False,
    )
    assert equal(read_weights(tmp_path / 'a.pth'))


def test_safetensors(tmp_path):
    from safetensors.torch import save_file

    save_file(
        {n: w.contiguous() for n, w in WEIGHTS.items()}, tmp_path / 'a.safetensors'
    )
    assert equal(read_weights(tmp_path / 'a.safetensors'))


@pytest.mark.parametrize('zipped', [True, False])
def test_code_in_a_file_never_runs(tmp_path, zipped):
    proof = tmp_path / 'ran'
    calls = [
        Runs(os.system, f'touch {proof}'),
        Runs(builtins.eval, f'open({str(proof)!r}, "w")'),
        Runs(builtins.exec, f'open({str(proof)!r}, "w")'),
        Runs(os.mkdir, str(proof)),
    ]
    content = dict(state_dict=WEIGHTS, calls=calls)
    torch.save(content, tmp_path / 'a.pth', _use_new_zipfile_serialization=zipped)
    assert equal(read_weights(tmp_path / 'a.pth'))
    assert not proof.exists()
    for call in calls:  # each is what it is meant to be
        pickle.loads(pickle.dumps(call))
        assert proof.exists()
        proof.rmdir() if proof.is_dir() else proof.unlink()


def test_a_pickle_that_is_no_checkpoint_does_not_run(tmp_path):
    proof = tmp_path / 'ran'
    (tmp_path / 'a.pth').write_bytes(pickle.dumps(Runs(os.system, f'touch {proof}')))
    with pytest.raises(ValueError, match='not a checkpoint'):
        read_weights(tmp_path / 'a.pth')
    assert not proof.exists()


def test_a_file_cannot_change_the_functions_it_names(tmp_path):
    """A pickle may set attributes, such as default arguments, of what it names."""
    # The name; then BUILD with the state (None, {'__defaults__': ('x',)}).
    stream = (
        b'\x80\x02ctorch._utils\n_rebuild_parameter\n'
        b'(N}X\x0c\x00\x00\x00__defaults__X\x01\x00\x00\x00x\x85stb.'
    )
    function = torch._utils._rebuild_parameter
    with pytest.raises(pickle.UnpicklingError, match='a state for'):
        InertUnpickler(io.BytesIO(stream)).load()
    assert function.__defaults__ is None
    try:  # the stream is what it is meant to be
        pickle.loads(stream)
        assert function.__defaults__ == ('x',)
    finally:
        function.__defaults__ = None


class Writes(nn.Module):
    """As TorchScript it writes a file when it is loaded."""

    def __init__(self, path):
        super().__init__()
        self.path: str = str(path)

    def forward(self):
        return 0

    @torch.jit.export
    def __getstate__(self):
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[str, bool]):  # noqa: UP006
        self.path = state[0]
        self.training = state[1]
        torch.save(torch.zeros(1), self.path)


def script(path, proof):
    torch.jit.script(Writes(proof)).save(str(path))


def script_that_looks_like_no_zip(path, proof):
    script(path, proof)
    with path.open('ab') as file:
        file.write(b'PK\x05\x06')
    assert not zipfile.is_zipfile(path)


def tar(path, proof):
    script(path.with_name('script'), proof)
    with tarfile.open(path, 'w') as archive:
        archive.add(path.with_name('script'), 'storages')


ARCHIVES = pytest.mark.parametrize(
    'make', [script, script_that_looks_like_no_zip, tar], ids=lambda make: make.__name__
)


@ARCHIVES
def test_archives_that_run_when_read_are_refused(tmp_path, make):
    proof = tmp_path / 'ran'
    make(tmp_path / 'a.pth', proof)
    with pytest.raises(ValueError, match='a.pth.*TorchScript or tar'):
        read_weights(tmp_path / 'a.pth')
    assert not proof.exists()
    if make is not tar:  # it is what it is meant to be
        torch.jit.load(str(tmp_path / 'a.pth'))
        assert proof.exists()


def test_wrong_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='no checkpoint file.*gone.pth'):
        read_weights(tmp_path / 'gone.pth')
    (tmp_path / 'text.pth').write_text('weights')
    with pytest.raises(ValueError, match='text.pth.*not a checkpoint'):
        read_weights(tmp_path / 'text.pth')
    torch.save(WEIGHTS, tmp_path / 'cut.pth')
    (tmp_path / 'cut.pth').write_bytes((tmp_path / 'cut.pth').read_bytes()[:300])
    with pytest.raises(ValueError, match='cut.pth.*not a checkpoint'):
        read_weights(tmp_path / 'cut.pth')
    torch.save(dict(epoch=3, state_dict={}), tmp_path / 'empty.pth')
    with pytest.raises(ValueError, match='empty.pth.*holds no weights'):
        read_weights(tmp_path / 'empty.pth')
