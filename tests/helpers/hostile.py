"""Files that run code when they are read carelessly: each makes the folder ``mark``."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Tuple  # noqa: UP035 (TorchScript of torch 2.1 needs Tuple)

import numpy as np
import torch
from mmengine.logging import HistoryBuffer
from torch import nn

# Of no network, so that a reader that takes the weights alone has to say so.
WEIGHTS = OrderedDict(strange=torch.arange(6.0).view(2, 3))
KINDS: dict[str, Callable[[Path, str], Any]] = {}


class Runs:
    """Pickles to a call of the given function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


class Filled:
    """Pickles to an object of a class with the given state."""

    def __init__(self, made, args, state):
        self.reduced = made, args, state

    def __reduce__(self):
        return self.reduced


def kind(function):
    """Add a way to write a file that runs code; the name says which."""
    KINDS[function.__name__] = function
    return function


def write_all(folder: Path, mark: str) -> dict[str, Path]:
    """Write a file of each kind.

    Args:
        folder (Path): Folder to write to.
        mark (str): Path that shows, by existing, that something ran.

    Returns:
        dict[str, Path]: Each file, under the name of its kind.
    """
    files = {}
    for name, make in KINDS.items():
        suffix = '.safetensors' if name.startswith('safetensors') else '.pth'
        files[name] = folder / (name + suffix)
        make(files[name], mark)
    return files


def training(**changes) -> dict:
    """What mmengine's runner saves."""
    hub = dict(
        log_scalars=OrderedDict(loss=HistoryBuffer([1.0, 2.0], [1, 1])),
        runtime_info=dict(epoch=1, iter=1),
        resumed_keys=OrderedDict(),
    )
    state = dict(
        meta=dict(epoch=1, iter=1, seed=0),
        message_hub=hub,
        optimizer=dict(state={}, param_groups=[dict(lr=0.1, params=[])]),
        state_dict=WEIGHTS,
    )
    return {**state, **changes}


# -- pickles


@kind
def plain_pickle(path, mark):
    path.write_bytes(pickle.dumps(Runs(os.mkdir, mark)))


@kind
def pickle_of_text(path, mark):
    path.write_bytes(pickle.dumps(Runs(eval, f'__import__("os").mkdir({mark!r})'), 0))


@kind
def torch_zip(path, mark):
    torch.save(training(more=Runs(os.mkdir, mark)), path)


@kind
def among_weights(path, mark):
    torch.save(dict(state_dict=OrderedDict(WEIGHTS, a=Runs(os.mkdir, mark))), path)


@kind
def as_a_key(path, mark):
    torch.save(dict(state_dict=WEIGHTS, more={Runs(os.mkdir, mark): 1}), path)


@kind
def loads_bytes(path, mark):
    inner = io.BytesIO()
    torch.save(Runs(os.mkdir, mark), inner)
    hidden = Runs(torch.storage._load_from_bytes, inner.getvalue())
    torch.save(training(more=hidden), path)


@kind
def rebuilds_by_a_function(path, mark):
    call = Runs(torch._tensor._rebuild_from_type_v2, os.mkdir, torch.Tensor, (mark,), 0)
    torch.save(dict(state_dict=dict(WEIGHTS, a=call)), path)


@kind
def loads_a_script(path, mark):
    inner = path.with_suffix('.pt')
    script(inner, mark)
    torch.save(training(more=Runs(torch.jit.load, str(inner))), path)


# -- the format of torch before 1.6


@kind
def legacy(path, mark):
    content = training(more=Runs(os.mkdir, mark))
    torch.save(content, path, _use_new_zipfile_serialization=False)


def legacy_parts(path, **changes):
    """Write the parts of the old format one by one."""
    parts = dict(magic=0x1950A86A20F9469CFC6C, protocol=1001, system={}, content={})
    parts.update(keys=[])
    parts.update(changes)
    path.write_bytes(b''.join(pickle.dumps(part, 2) for part in parts.values()))


@kind
def legacy_system(path, mark):
    legacy_parts(path, system=Runs(os.mkdir, mark))


@kind
def legacy_keys(path, mark):
    legacy_parts(path, keys=Runs(os.mkdir, mark))


# -- archives


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


@kind
def script(path, mark):
    torch.jit.script(Writes(mark)).save(str(path))


@kind
def script_with_a_false_end(path, mark):
    script(path, mark)
    with path.open('ab') as file:
        file.write(b'PK\x05\x06')
    assert not zipfile.is_zipfile(path), 'Python takes it for no zip; torch opens it'


@kind
def script_with_a_tail(path, mark):
    script(path, mark)
    with path.open('ab') as file:
        file.write(b'\0' * 1000)


@kind
def script_with_a_head(path, mark):
    script(path, mark)
    path.write_bytes(b'PK\x03\x04' + b'\0' * 60 + path.read_bytes())


@kind
def script_with_weights(path, mark):
    """A file of torch.save that also has the parts of a script."""
    script(path, mark)
    torch.save(WEIGHTS, path.with_suffix('.good'))
    with zipfile.ZipFile(path.with_suffix('.good')) as good:
        parts = {name.split('/', 1)[1]: good.read(name) for name in good.namelist()}
    with zipfile.ZipFile(path) as bad:
        parts.update({name.split('/', 1)[1]: bad.read(name) for name in bad.namelist()})
    with zipfile.ZipFile(path, 'w') as both:
        for name, content in parts.items():
            both.writestr(f'archive/{name}', content)


@kind
def tar(path, mark):
    with tarfile.open(path, 'w') as archive:
        for name in ('storages', 'tensors', 'pickle'):
            content = pickle.dumps(Runs(os.mkdir, mark))
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


# -- names that promise something else


@kind
def safetensors_pickle(path, mark):
    plain_pickle(path, mark)


@kind
def safetensors_zip(path, mark):
    torch_zip(path, mark)


@kind
def safetensors_script(path, mark):
    script_with_a_false_end(path, mark)


# -- numpy


@kind
def numpy_objects(path, mark):
    torch.save(training(boxes=np.array([Runs(os.mkdir, mark)], dtype=object)), path)


@kind
def numpy_load(path, mark):
    saved = path.with_suffix('.npy')
    np.save(saved, np.array([Runs(os.mkdir, mark)], dtype=object), allow_pickle=True)
    torch.save(training(boxes=Runs(np.load, str(saved), None, True)), path)


@kind
def numpy_reconstruct(path, mark):
    make = np.zeros(0).__reduce__()[0]
    state = (1, (1,), np.dtype('O'), False, [Runs(os.mkdir, mark)])
    torch.save(training(boxes=Filled(make, (np.ndarray, (0,), b'b'), state)), path)


# -- what a training checkpoint holds beside weights


@kind
def in_meta(path, mark):
    torch.save(training(meta=dict(epoch=1, iter=1, cfg=Runs(os.mkdir, mark))), path)


@kind
def config_in_meta(path, mark):
    """Plain text, which mmengine's runner runs as a config when it resumes."""
    text = f'gpu_ids = [__import__("os").mkdir({mark!r})]\n'
    state = training(meta=dict(epoch=1, iter=1, config=text))
    del state['optimizer']  # fits no model
    torch.save(state, path)


@kind
def in_message_hub(path, mark):
    hub = dict(training()['message_hub'], runtime_info=dict(a=Runs(os.mkdir, mark)))
    torch.save(training(message_hub=hub), path)


@kind
def in_history_buffer(path, mark):
    methods = dict(mean=Runs(os.mkdir, mark))
    buffer = Filled(HistoryBuffer, (), dict(statistics_methods=methods))
    hub = dict(training()['message_hub'], log_scalars=OrderedDict(loss=buffer))
    torch.save(training(message_hub=hub), path)


@kind
def in_optimizer(path, mark):
    groups = [dict(lr=0.1, params=[], closure=Runs(os.mkdir, mark))]
    torch.save(training(optimizer=dict(state={}, param_groups=groups)), path)
