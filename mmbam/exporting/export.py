"""Write a backbone for another library, prove it, and certify that."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import timm
import torch

from mmbam.utils.errors import InputError
from mmbam.utils.files import require_writable, sha256, write_text, written
from mmbam.version import __version__

from .formats import SUFFIXES, WRITERS
from .proof import prove
from .source import load_source
from .twin import TOLERANCE

FORMATS = tuple(WRITERS)
CERTIFICATE = 'certificate.json'


def export_backbone(
    checkpoint: str | Path,
    to: str,
    out: str | Path | None = None,
    *,
    config: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    source: str = 'auto',
    size: int | None = None,
    license: str | None = None,
    python: str | None = None,
    prefix: str | None = None,
    model: str | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Write a backbone for another library and prove that it gives the same features.

    The file is opened again in a new process by the library that it is for. If it
    gives other features, or holds other weights, no file stays. ``certificate.json``
    beside it says what was compared.

    Args:
        checkpoint (str | Path): A checkpoint of mmbam, or any that ``config`` fits.
        to (str): One of ``FORMATS``.
        out (str | Path, optional): File to write; a folder for ``'hf'``. Defaults to
            None, a place beside the checkpoint with the name of the format.
        config (str | Path, optional): Config with ``model.backbone``. Defaults to None,
            the one in the checkpoint.
        options (Mapping, optional): Values to set in the config, by dotted keys.
            Defaults to None.
        source (str): ``'teacher'``, ``'student'`` or ``'auto'``. Defaults to
            ``'auto'``.
        size (int, optional): Side of the images in pixels. Defaults to None, the
            network's own or 224.
        license (str, optional): License of the weights. Defaults to None, not stated.
        python (str, optional): Python of an environment with the library that opens
            the file. Defaults to None, the present one.
        prefix (str, optional): See :func:`mmbam.checkpoints.load_backbone`. Defaults to
            None.
        model (str, optional): Name of a network in timm, for a file without a config.
            Defaults to None.

    Returns:
        tuple[Path, dict]: What was written, and its certificate.

    Raises:
        ProofError: What was written does not give the features of the checkpoint.
    """
    if to not in WRITERS:
        raise InputError(f'to must be one of {FORMATS}, but got {to!r}.')
    if size is not None and size < 1:
        raise InputError(f'size must be at least 1, but got {size}.')
    if python is not None and shutil.which(python) is None:
        raise InputError(f'There is no program {python!r} to open the file with.')
    checkpoint = Path(checkpoint)
    suffix = SUFFIXES[to]
    path = Path(out or checkpoint.with_name(f'{checkpoint.stem}_{to}{suffix}'))
    if suffix:
        if to in ('safetensors', 'onnx') and path.suffix != suffix:
            raise InputError(
                f'A file of {to} must end with {suffix}, but got {path.name!r}.'
            )
        require_writable(path, checkpoint, config)
    else:
        _require_replaceable(path)
    found = load_source(checkpoint, config, options, source, size, prefix, model)
    if not all(part.isfinite().all() for pair in found.expected for part in pair):
        raise InputError(
            f'The features of {str(checkpoint)!r} are not finite: its weights are '
            'damaged, or its training diverged.'
        )
    if license:
        found.facts['license'] = license
    with written(path) if suffix else _written_folder(path) as part:
        tried, readings = WRITERS[to](found, part)
        libraries = {
            one.library: dict(prove(tried, part, one, python), opened_as=one.recipe)
            for one in readings
        }
        results = {one['result'] for one in libraries.values()}
        files = {part: path.name} if suffix else {f: f.name for f in part.iterdir()}
        certificate = dict(
            result='verified' if results == {'verified'} else 'not verified',
            format=to,
            sizes='any' if tried.dynamic else f'{tried.size} x {tried.size}',
            tolerance=TOLERANCE,
            libraries=libraries,
            sha256={name: sha256(file) for file, name in sorted(files.items())},
            source=found.facts,
            versions=dict(
                mmbam=__version__,
                python=platform.python_version(),
                torch=torch.__version__,
                timm=timm.__version__,
            ),
        )
        if not suffix:
            _certify(part / CERTIFICATE, 'model.safetensors', certificate)
    if suffix:
        _certify(path.with_name(CERTIFICATE), path.name, certificate)
    return path, certificate


def _certify(path: Path, name: str, certificate: dict[str, Any]) -> None:
    """Put the certificate of a file beside those of the others in its folder."""
    try:
        others = json.loads(path.read_text('utf-8'))
    except (OSError, ValueError):
        others = {}
    entries = {**(others if isinstance(others, dict) else {}), name: certificate}
    write_text(path, json.dumps(entries, indent=2) + '\n')


def _require_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that is not an export itself."""
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / CERTIFICATE).is_file():
            raise InputError(
                f'{str(folder)!r} holds other files: name a new folder with --out.'
            )
    elif folder.exists() and not folder.is_dir():
        raise InputError(f'{str(folder)!r} is a file, but a folder is to be written.')
    require_writable(folder / CERTIFICATE)


@contextmanager
def _written_folder(folder: Path) -> Iterator[Path]:
    """Give the name of a folder to make, and rename it at the end."""
    part = folder.absolute().with_name(f'.{folder.absolute().name}.{os.getpid()}.part')
    old = part.with_suffix('.old')
    try:
        yield part
        if folder.exists():
            os.replace(folder, old)
        os.replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
