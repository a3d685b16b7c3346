"""A checkpoint is complete or absent, and a damaged one is noticed."""

from __future__ import annotations

import io
import os
import subprocess

import numpy as np
import pytest
import torch

from mmbam.checkpoints.newest import damage, newest_checkpoint
from mmbam.checkpoints.writing import CHECKSUMS, write_checkpoint, write_file


def checkpoint(iteration: int = 0) -> bytes:
    file = io.BytesIO()
    weights = dict(weight=torch.arange(300.0) + iteration)
    torch.save(dict(meta=dict(iter=iteration), state_dict=weights), file)
    return file.getvalue()


def flip_two_bits(path, rng) -> None:
    content = bytearray(path.read_bytes())
    for place in rng.choice(8 * len(content), 2, replace=False):
        content[place // 8] ^= 1 << (place % 8)
    path.write_bytes(content)


@pytest.mark.parametrize('step', ['write', 'fsync', 'replace'])
def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch, step):
    path = tmp_path / 'epoch_1.pth'
    write_file(path, b'old')

    def fail(*_):
        raise OSError(28, 'No space left on device')

    if step == 'write':
        content = None  # not bytes
    else:
        content = b'new'
        monkeypatch.setattr(os, step, fail)
    with pytest.raises((OSError, TypeError)):
        write_file(path, content)
    assert [file.name for file in tmp_path.iterdir()] == ['epoch_1.pth']
    assert path.read_bytes() == b'old'


def test_any_two_flipped_bits_are_noticed(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / 'epoch_1.pth'
    for _ in range(100):
        write_checkpoint(path, checkpoint())
        assert damage(path) is None
        flip_two_bits(path, rng)
        assert damage(path).startswith(('damaged', 'cut short'))


def test_without_a_checksum_two_flipped_bits_of_the_weights_are_noticed(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / 'epoch_1.pth'
    content = checkpoint()
    weights = np.arange(300, dtype='<f4').tobytes()
    start = content.index(weights)
    for _ in range(50):
        changed = bytearray(content)
        for place in rng.choice(8 * len(weights), 2, replace=False):
            changed[start + place // 8] ^= 1 << (place % 8)
        path.write_bytes(changed)
        assert damage(path).startswith('damaged')
    path.write_bytes(content)
    assert damage(path) is None


def test_checksums_are_those_of_sha256sum(tmp_path):
    for iteration in (1, 2):
        write_checkpoint(tmp_path / f'epoch_{iteration}.pth', checkpoint(iteration))
    check = ['sha256sum', '--strict', '-c', CHECKSUMS]
    assert (
        subprocess.run(check, cwd=tmp_path, stdout=subprocess.DEVNULL).returncode == 0
    )


def test_a_file_that_was_replaced_is_intact_before_and_after(tmp_path, monkeypatch):
    path = tmp_path / 'epoch_1.pth'
    write_checkpoint(path, checkpoint(1))
    plain = os.replace

    def die(source, target):
        if str(target).endswith('.pth'):
            raise KeyboardInterrupt
        plain(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, 'replace', die)
        with pytest.raises(KeyboardInterrupt):
            write_checkpoint(path, checkpoint(2))
    assert damage(path) is None and path.read_bytes() == checkpoint(1)
    write_checkpoint(path, checkpoint(2))
    assert damage(path) is None and path.read_bytes() == checkpoint(2)


def test_the_newest_intact_checkpoint_is_found_whatever_else_is_there(tmp_path):
    names = ['epoch_2.pth', 'autosave_iter_27.pth', 'epoch_10.pth', 'epoch_3.pth']
    for name in names:  # in another order than that of the iterations
        write_checkpoint(tmp_path / name, checkpoint())
    for name in ('best_top1_epoch_99.pth', 'collapsed_iter_999.pth', 'other.pth'):
        write_checkpoint(tmp_path / name, checkpoint())
    (tmp_path / 'last_checkpoint').write_text('nowhere')
    (tmp_path / 'epoch_11.pth.part').write_bytes(b'half')

    def newest():
        path, passed_over = newest_checkpoint([tmp_path], epoch_length=10)
        return path and path.name, passed_over

    assert newest() == ('epoch_10.pth', [])
    flip_two_bits(tmp_path / 'epoch_10.pth', np.random.default_rng(1))
    damaged = 'epoch_10.pth (damaged: it is not what was written)'
    assert newest() == ('epoch_3.pth', [damaged])
    whole = (tmp_path / 'epoch_3.pth').read_bytes()
    (tmp_path / 'epoch_3.pth').write_bytes(whole[: len(whole) // 2])
    short = 'epoch_3.pth (cut short, or no checkpoint)'
    assert newest() == ('autosave_iter_27.pth', [damaged, short])
    for name in names:
        (tmp_path / name).unlink()
    assert newest() == (None, [])
    assert newest_checkpoint([tmp_path / 'absent'], 10) == (None, [])
