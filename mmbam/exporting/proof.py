"""Prove that an exported file gives the features of its source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mmbam.utils.errors import ExpectedError

from . import reopen
from .features import difference
from .source import Source
from .twin import TOLERANCE

#: What to do about a library that is missing, where `pip install` is not all.
ADVICE = {
    # With some releases of transformers beside it, mmpretrain cannot be imported.
    'transformers': 'install timm and transformers (4.53 or newer) in an environment '
    'of their own and name its Python with --python'
}


class ProofError(ExpectedError):
    """An exported file does not give the features of its source."""


class Reading(NamedTuple):
    """How to open a file again.

    Args:
        library (str): Name of the module; see :mod:`.reopen`.
        recipe (dict): What the library needs to know besides the file.
        weights (dict, optional): The weights that it must find, by its own names.
    """

    library: str
    recipe: dict[str, Any]
    weights: dict[str, Tensor] | None = None


def prove(
    source: Source, path: Path, reading: Reading, python: str | None = None
) -> dict[str, Any]:
    """Open a file in a new process and compare its features with the source's.

    Args:
        source (Source): The backbone, and the images to compare on.
        path (Path): The file or folder.
        reading (Reading): The library and what it needs.
        python (str, optional): Python of the environment with the library. Defaults to
            None, the present one.

    Returns:
        dict: ``result`` (``'verified'`` or ``'not verified'``), and either the version
        and the differences, or what is missing and how to get it.

    Raises:
        ProofError: The library cannot open the file, or finds other features or other
            weights.
    """
    library = reading.library
    with tempfile.TemporaryDirectory() as folder:
        request = {
            name: str(Path(folder, name))
            for name in ('images.npz', 'found.npz', 'report.json')
        }
        images = {str(i): batch.numpy() for i, batch in enumerate(source.images)}
        np.savez(request['images.npz'], **images)
        call: dict[str, Any] = {
            key.split('.')[0]: value for key, value in request.items()
        }
        call.update(library=library, path=str(path.absolute()), recipe=reading.recipe)
        question = Path(folder, 'request.json')
        question.write_text(json.dumps(call), 'utf-8')
        done = subprocess.run(
            [python or sys.executable, reopen.__file__, str(question)],
            env={**os.environ, 'HF_HUB_OFFLINE': '1', 'CUDA_VISIBLE_DEVICES': ''},
            capture_output=True,
            text=True,
        )
        said = ' '.join(done.stderr.strip().split('\n')[-1].split())
        if done.returncode == reopen.MISSING:
            return dict(
                result='not verified',
                reason=said,
                advice=ADVICE.get(library, f'pip install {library}'),
            )
        if done.returncode:
            raise ProofError(
                f'{library} cannot use what was written (exit code '
                f'{done.returncode}): {said[:300]}'
            )
        report = json.loads(Path(call['report']).read_text('utf-8'))
        with np.load(call['found']) as found:
            features = {key: torch.from_numpy(found[key]) for key in found.files}
    comparisons = _compare(source, features)
    for one in comparisons:
        for name in ('embedding', 'tokens'):
            if not one[name] <= TOLERANCE:  # also for NaN
                raise ProofError(
                    f'{library} finds other features in what was written than the '
                    f'source has: {name} differs by {one[name]:.2g} of its size, and '
                    f'{TOLERANCE} is allowed.'
                )
    if reading.weights is not None:
        _require_equal(library, reopen.digests(reading.weights), report['weights'])
    return dict(result='verified', version=report['version'], comparisons=comparisons)


def _compare(source: Source, found: dict[str, Tensor]) -> list[dict[str, Any]]:
    comparisons = []
    for index, (images, (embedding, maps)) in enumerate(
        zip(source.images, source.expected)
    ):
        pairs = dict(embedding=embedding, tokens=reopen.as_tokens(maps))
        differences = {
            name: difference(found[f'{name}{index}'], expected)
            for name, expected in pairs.items()
        }
        comparisons.append({'images': list(images.shape), **differences})
    return comparisons


def _require_equal(
    library: str, expected: dict[str, str], found: dict[str, str]
) -> None:
    wrong = [name for name in expected if found.get(name) != expected[name]]
    wrong += [name for name in found if name not in expected]
    if wrong:
        raise ProofError(
            f'{library} finds other weights in what was written than the source has: '
            f'{", ".join(wrong[:4])}{" ..." if len(wrong) > 4 else ""}.'
        )
