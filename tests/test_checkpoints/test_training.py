"""Training checkpoints load whole on any torch; files with anything else do not."""

import io
import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer
from mmengine.runner import CheckpointLoader

from mmbam.checkpoints import load_training_checkpoint, read_weights, use_safe_loading
from mmbam.checkpoints.unpickling import TrainingUnpickler
from tests.helpers.hostile import Runs
from tests.test_checkpoints.test_reading import WEIGHTS, Own, equal


def training_state() -> dict:
    """The kinds of objects that mmengine's runner saves."""
    loss = HistoryBuffer([1.0, 2.5], [1, 1])
    return dict(
        meta=dict(epoch=3, cfg='a = 1', seed=np.int64(3), time='now'),
        message_hub=dict(
            log_scalars=OrderedDict(loss=loss),
            runtime_info=dict(epoch=3, lr=np.float64(0.1), ok=np.bool_(True)),
            resumed_keys=OrderedDict(loss=True),
        ),
        optimizer=dict(
            state={0: dict(step=torch.tensor(3.0), exp_avg=torch.ones(2))},
            param_groups=[dict(lr=0.1, betas=(0.9, 0.999), params=[0])],
        ),
        boxes=np.arange(8, dtype=np.float32).reshape(2, 4),
        state_dict=WEIGHTS,
    )


@pytest.mark.parametrize('zipped', [True, False])
def test_all_that_a_runner_saves_arrives(tmp_path, zipped):
    torch.save(
        training_state(), tmp_path / 'a.pth', _use_new_zipfile_serialization=zipped
    )
    loaded = load_training_checkpoint(tmp_path / 'a.pth')
    assert equal(loaded['state_dict'])
    loss = loaded['message_hub']['log_scalars']['loss']
    assert type(loss) is HistoryBuffer
    assert loss.mean() == 1.75 and loss.statistics('max') == 2.5
    assert loaded['meta'] == training_state()['meta']
    assert loaded['message_hub']['runtime_info']['lr'] == 0.1
    assert loaded['message_hub']['runtime_info']['ok']
    np.testing.assert_array_equal(loaded['boxes'], training_state()['boxes'])
    assert torch.equal(loaded['optimizer']['state'][0]['exp_avg'], torch.ones(2))
    torch.save(loaded, tmp_path / 'again.pth')
    assert load_training_checkpoint(tmp_path / 'again.pth').keys() == loaded.keys()


def test_names_of_the_other_numpy(tmp_path):
    """numpy 2 writes numpy._core where numpy 1 writes numpy.core; each reads both."""
    torch.save(training_state(), tmp_path / 'a.pth')
    names = [b'cnumpy.core.', b'cnumpy._core.']
    with zipfile.ZipFile(tmp_path / 'a.pth') as source:
        content = {name: source.read(name) for name in source.namelist()}
    (data,) = (name for name in content if name.endswith('data.pkl'))
    mine, other = names if names[0] in content[data] else names[::-1]
    content[data] = content[data].replace(mine, other)
    assert mine not in content[data] and other in content[data]
    with zipfile.ZipFile(tmp_path / 'b.pth', 'w') as target:
        for name, value in content.items():
            target.writestr(name, value)
    loaded = load_training_checkpoint(tmp_path / 'b.pth')
    assert loaded['message_hub']['log_scalars']['loss'].mean() == 1.75
    assert loaded['meta']['seed'] == 3


@pytest.mark.parametrize('zipped', [True, False])
@pytest.mark.parametrize(
    'culprit',
    [
        Runs(os.mkdir, 'ran'),
        Runs(eval, 'open("ran", "w")'),
        Runs(np.load, 'a.npy', None, True),
        Own(1),
    ],
    ids=['os', 'eval', 'numpy', 'class'],
)
def test_the_rest_is_refused_in_one_sentence(tmp_path, monkeypatch, culprit, zipped):
    monkeypatch.chdir(tmp_path)
    content = dict(training_state(), culprit=culprit)
    torch.save(content, 'a.pth', _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match="'a.pth' holds other objects") as error:
        load_training_checkpoint('a.pth')
    assert '\n' not in str(error.value)
    assert not os.path.exists('ran')
    assert equal(read_weights('a.pth')), 'as the sentence says'


def test_a_file_cannot_change_the_classes_it_names():
    # The name; then BUILD with the state (None, {'mean': 'x'}).
    stream = (
        b'\x80\x02cmmengine.logging.history_buffer\nHistoryBuffer\n'
        b'(N}X\x04\x00\x00\x00meanX\x01\x00\x00\x00xstb.'
    )
    pickletools.dis(stream, out=io.StringIO())  # is a pickle
    mean = HistoryBuffer.mean
    with pytest.raises(pickle.UnpicklingError, match='state for'):
        TrainingUnpickler(io.BytesIO(stream)).load()
    assert HistoryBuffer.mean is mean


def test_a_file_cannot_change_what_all_buffers_share(tmp_path):
    class Fills:
        def __reduce__(self):
            state = dict(statistics_methods=dict(mean='x'))
            return HistoryBuffer, (), state

    torch.save(dict(state_dict=WEIGHTS, a=Fills()), tmp_path / 'a.pth')
    load_training_checkpoint(tmp_path / 'a.pth')
    assert HistoryBuffer([1.0, 3.0], [1, 1]).statistics('mean') == 2.0


def test_bytes_of_a_file_do_not_become_pointers():
    """A compound type whose object field is not flagged as one."""

    class Compound:
        def __reduce__(self):
            field = {'f0': (np.dtype('O'), 0)}
            state = (3, '|', None, ('f0',), field, 8, 1, 0)
            return np.dtype, ('V8', False, True), state

    stream = pickle.dumps(Compound(), protocol=2)
    with pytest.raises(pickle.UnpicklingError, match='type .V8'):
        TrainingUnpickler(io.BytesIO(stream)).load()


def test_objects_without_weights_are_not_taken_for_damage(tmp_path):
    torch.save(dict(a=Own(1)), tmp_path / 'a.pth')
    with pytest.raises(ValueError, match='other objects'):
        load_training_checkpoint(tmp_path / 'a.pth')


def test_empty_arrays_and_logs_arrive(tmp_path):
    content = dict(boxes=np.zeros((0, 4), np.float32), log=HistoryBuffer([], []))
    torch.save(content, tmp_path / 'a.pth')
    loaded = load_training_checkpoint(tmp_path / 'a.pth')
    assert loaded['boxes'].shape == (0, 4) and loaded['boxes'].dtype == np.float32
    assert len(loaded['log'].data[0]) == 0


def test_a_config_in_the_file_is_left_out(tmp_path):
    """mmengine's runner would run it, on resuming."""
    meta = dict(epoch=3, config='raise SystemExit')
    torch.save(dict(state_dict=WEIGHTS, meta=meta), tmp_path / 'a.pth')
    assert load_training_checkpoint(tmp_path / 'a.pth')['meta'] == dict(epoch=3)


def test_a_changed_byte_order_does_not_spread(tmp_path):
    """The state of a type could otherwise change the one that numpy shares."""
    torch.save(dict(a=np.arange(3, dtype='>f8')), tmp_path / 'a.pth')
    loaded = load_training_checkpoint(tmp_path / 'a.pth')['a']
    np.testing.assert_array_equal(loaded, [0, 1, 2])
    assert np.dtype('f8').byteorder == '='


def test_every_library_loads_by_the_same_rule(tmp_path):
    torch.save(training_state(), tmp_path / 'good.pth')
    torch.save(dict(state_dict=WEIGHTS, own=Own(1)), tmp_path / 'bad.pth')
    load = CheckpointLoader.load_checkpoint
    assert 'own' in load(str(tmp_path / 'bad.pth'), 'cpu'), 'mmengine alone would'
    use_safe_loading()
    assert equal(load(str(tmp_path / 'good.pth'), 'cpu')['state_dict'])
    with pytest.raises(ValueError, match='bad.pth.*holds other objects'):
        load(str(tmp_path / 'bad.pth'), 'cpu')
    with (tmp_path / 'good.pth').open('rb') as file:
        assert equal(torch.load(io.BytesIO(file.read()))['state_dict'])
    with pytest.raises(ValueError, match='The stream holds other objects'):
        torch.load(io.BytesIO((tmp_path / 'bad.pth').read_bytes()))
    assert torch.load.__wrapped__ is not torch.load, "torch's own can be reached"


def test_tensors_of_other_ranks_still_arrive():
    use_safe_loading()
    sent = dict(score=torch.arange(3.0), label=torch.tensor(1))
    got = pickle.loads(pickle.dumps(sent))  # as mmengine.dist does between ranks
    assert torch.equal(got['score'], sent['score']) and got['label'] == 1


def test_wrong_files_are_named(tmp_path):
    (tmp_path / 'text.pth').write_text('weights')
    torch.save(WEIGHTS, tmp_path / 'cut.pth')
    (tmp_path / 'cut.pth').write_bytes((tmp_path / 'cut.pth').read_bytes()[:300])
    torch.save([1], tmp_path / 'list.pth')
    for name, what in dict(
        gone='There is no checkpoint file',
        text='is not a checkpoint',
        cut='is not a checkpoint',
        list='holds no dict',
    ).items():
        with pytest.raises(ValueError, match=what) as error:
            load_training_checkpoint(tmp_path / f'{name}.pth')
        assert f'{name}.pth' in str(error.value)
