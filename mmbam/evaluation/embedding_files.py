"""Files of embeddings: .npz, .npy with names beside it, or .parquet."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mmbam.utils.errors import InputError
from mmbam.utils.files import write_text, written

FORMATS = ('.npz', '.npy', '.parquet')


class Rows(NamedTuple):
    """A large array that is read part by part.

    Args:
        shape (tuple[int, ...]): Shape of the whole array.
        dtype (np.dtype): Type of its numbers.
        parts (Callable): Function that yields the rows in order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    parts: Callable[[], Iterator[np.ndarray]]


def require_format(path: str | Path) -> None:
    """Refuse an ending that is not known, or that needs a package that is missing."""
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise InputError(
            f'--out must end with {", ".join(FORMATS)}, but got {str(path)!r}.'
        )
    if suffix == '.parquet':
        try:
            import_module('pyarrow')
        except ImportError as error:  # there is none, or it is for another numpy
            raise InputError(
                f'{str(path)!r} needs the package pyarrow ({error}): pip install '
                "'mmbam[parquet]', or name a file that ends with .npz."
            ) from error


def write_embeddings(
    path: str | Path, names: Sequence[str], arrays: dict[str, Rows]
) -> None:
    """Write arrays and the names of their rows; the same content gives the same bytes.

    Args:
        path (str | Path): File to write. ``.npz`` holds the arrays and ``files``, the
            names. ``.npy`` holds ``embeddings`` alone; the names go into
            ``<stem>.files.txt``, other arrays into ``<stem>.<array>.npy``.
            ``.parquet`` has a column for each.
        names (Sequence[str]): Name of each row.
        arrays (dict[str, Rows]): Arrays with one row per name, ``embeddings`` first.
    """
    path = Path(path)
    if path.suffix == '.npz':
        _write_npz(path, names, arrays)
    elif path.suffix == '.npy':
        for key, rows in arrays.items():
            _write_npy(path if key == 'embeddings' else beside(path, key), rows)
        write_text(names_file(path), ''.join(f'{name}\n' for name in names))
    else:
        _write_parquet(path, names, arrays)


def names_file(path: Path) -> Path:
    """File of the names that belong to a file of embeddings that ends with .npy."""
    return path.with_name(f'{path.stem}.files.txt')


def beside(path: Path, key: str) -> Path:
    """File of another array that belongs to it."""
    return path.with_name(f'{path.stem}.{key}.npy')


def _write_npz(path: Path, names: Sequence[str], arrays: dict[str, Rows]) -> None:
    listed = np.array(names)
    arrays = {
        **arrays,
        'files': Rows(listed.shape, listed.dtype, lambda: iter([listed])),
    }
    with written(path) as part, zipfile.ZipFile(part, 'w') as archive:
        for key, rows in arrays.items():
            # Without the time of writing.
            entry = zipfile.ZipInfo(f'{key}.npy')
            with archive.open(entry, 'w', force_zip64=True) as file:
                _write_rows(file, rows)


def _write_npy(path: Path, rows: Rows) -> None:
    with written(path) as part, part.open('wb') as file:
        _write_rows(file, rows)


def _write_rows(file: Any, rows: Rows) -> None:
    descr = np.lib.format.dtype_to_descr(rows.dtype)
    header = dict(descr=descr, fortran_order=False, shape=rows.shape)
    np.lib.format.write_array_header_1_0(file, header)
    for part in rows.parts():
        file.write(np.ascontiguousarray(part, rows.dtype).tobytes())


def _write_parquet(path: Path, names: Sequence[str], arrays: dict[str, Rows]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    def column(rows: np.ndarray) -> Any:
        flat = pa.array(rows.reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, rows[0].size)

    # Lists have one dimension: the shape of a row is in the meta data of its column.
    fields = [pa.field('file', pa.string())]
    for key, rows in arrays.items():
        kind = pa.list_(pa.from_numpy_dtype(rows.dtype), int(np.prod(rows.shape[1:])))
        shape = 'x'.join(map(str, rows.shape[1:]))
        fields.append(pa.field(key, kind, metadata={'shape': shape}))
    schema, start = pa.schema(fields), 0
    with written(path) as part, parquet.ParquetWriter(part, schema) as writer:
        for parts in zip(*(rows.parts() for rows in arrays.values())):
            stop = start + len(parts[0])
            columns = [pa.array(names[start:stop]), *map(column, parts)]
            writer.write_table(pa.table(columns, schema=schema))
            start = stop
