"""Reading: every tensor arrives, and nothing in the file ever runs."""

import builtins
import io
import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.logging import HistoryBuffer
from torch import nn

from mmbam.checkpoints import read_weights
from mmbam.checkpoints.unpickling import InertUnpickler, _rebuild_tensor
from tests.helpers.hostile import Runs

WEIGHTS = OrderedDict(a=torch.arange(6.0).view(2, 3).t(), b=torch.ones(2).half())


def equal(read, expected=WEIGHTS):
    return read.keys() == expected.keys() and all(
        torch.equal(read[name], expected[name]) for name in expected
    )


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


def test_flipped_bits_are_noticed(tmp_path):
    """torch itself loads other numbers from such a file."""
    torch.save(WEIGHTS, tmp_path / 'a.pth')
    content = bytearray((tmp_path / 'a.pth').read_bytes())
    place = content.index(torch.arange(6.0).numpy().tobytes())
    content[place + 6] ^= 3
    (tmp_path / 'a.pth').write_bytes(content)
    assert not torch.equal(torch.load(tmp_path / 'a.pth')['a'], WEIGHTS['a'])
    with pytest.raises(ValueError, match='a.pth.*cut short or damaged'):
        read_weights(tmp_path / 'a.pth')


def test_a_tensor_reaches_no_further_than_its_storage():
    with pytest.raises(RuntimeError, match='out of bounds'):
        _rebuild_tensor(torch.zeros(3), 0, (9,), (1,))


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
