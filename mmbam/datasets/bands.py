"""Images of any number of bands and bits: TIFF, NumPy's files and DICOM."""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import tifffile

#: Value of ``channels`` for images whose three bands are red, green and blue.
RGB = 'rgb'
#: Types of values that images keep. Other floats become float32.
TYPES = ('uint8', 'uint16', 'int16', 'float32')

_ORIENTED: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda x: x[:, ::-1],
    3: lambda x: x[::-1, ::-1],
    4: lambda x: x[::-1],
    5: lambda x: x.swapaxes(0, 1),
    6: lambda x: x[::-1].swapaxes(0, 1),
    7: lambda x: x[::-1, ::-1].swapaxes(0, 1),
    8: lambda x: x[:, ::-1].swapaxes(0, 1),
}


class WrongBands(ValueError):
    """An image has another number of bands than was asked for."""


def read_bands(
    content: bytes, channels: int | str, max_pixels: int
) -> tuple[np.ndarray, int | None] | None:
    """Read an image of a format that may hold any number of bands and bits.

    Number of bands, size and type are checked by the file's header, before any pixel is
    read. No file is ever unpickled.

    Args:
        content (bytes): Content of the file.
        channels (int | str): Number of bands that it must have, or ``'rgb'``: one or
            three, without alpha.
        max_pixels (int): Number of pixels above which the image is refused.

    Returns:
        tuple | None: Values (height, width, bands) of one of :data:`TYPES`, bands in
        the file's order, and the number of bits that the header declares or None. None
        for a file of another format.
    """
    if content[:4] in (b'II*\0', b'MM\0*', b'II+\0', b'MM\0+'):
        values, bits = _read_tiff(content, channels, max_pixels)
    elif content.startswith(b'\x93NUMPY'):
        values, bits = _read_npy(io.BytesIO(content), channels, max_pixels), None
    elif content.startswith(b'PK\x03\x04'):
        values, bits = _read_npz(content, channels, max_pixels), None
    elif content[128:132] == b'DICM':
        values, bits = _read_dicom(content, channels, max_pixels)
    else:
        return None
    if values.dtype.kind == 'f':
        values = values.astype(np.float32, copy=False)
        if not np.isfinite(values).all():
            raise ValueError('some values are not finite')
    return values.astype(values.dtype.newbyteorder('='), copy=False), bits


def check_size(width: int, height: int, max_pixels: int) -> None:
    """Refuse an image of more than ``max_pixels`` pixels."""
    if width * height > max_pixels:
        raise ValueError(
            f'{width} x {height} pixels are more than the {max_pixels:,} that '
            'max_pixels allows'
        )


def check_bands(found: int, dtype: Any, channels: int | str, alpha: bool) -> None:
    """Refuse another number of bands than ``channels`` asks for.

    ``alpha`` says whether the last band of one that is not gray or RGB is alpha.
    """
    rgb = channels == RGB and found - alpha in (1, 3)
    if not rgb and found != channels:
        bands = '1 band' if found == 1 else f'{found} bands'
        raise WrongBands(
            f'it has {bands} of {dtype}, but channels={channels!r} of '
            f'mmbam.LoadImage asks for {"1 or 3" if channels == RGB else channels}'
        )
    dtype = np.dtype(dtype)
    if dtype.name not in TYPES and dtype.kind != 'f':
        raise ValueError(
            f'values of {dtype} are not supported, but {", ".join(TYPES)} are'
        )


def _read_tiff(
    content: bytes, channels: int | str, max_pixels: int
) -> tuple[np.ndarray, int | None]:
    with tifffile.TiffFile(io.BytesIO(content)) as tiff:
        first = tiff.pages[0]
        assert isinstance(first, tifffile.TiffPage)  # only frames are none
        if first.dtype is None or set(first.axes) - set('YXS'):
            raise ValueError(f'a TIFF with axes {first.axes!r} is not supported')
        height, width = first.imagelength, first.imagewidth
        check_size(width, height, max_pixels)
        alpha = _has_alpha(first)
        pages = [first]
        if channels != RGB:  # of an RGB file the first page counts
            alpha = False
            limit = int(channels) // first.samplesperpixel + 1
            pages = _alike(tiff, first, limit)
        bands = len(pages) * first.samplesperpixel
        if len(pages) > 1 and bands > int(channels):
            raise WrongBands(
                f'it has more than {channels} bands of {first.dtype} in its pages, but '
                f'channels={channels} of mmbam.LoadImage'
            )
        check_bands(bands, first.dtype, channels, alpha)
        values = np.concatenate([_page_values(page, content) for page in pages], axis=2)
        bits = None
        if 'MaxSampleValue' in first.tags and values.dtype == np.uint16:
            bits = int(np.max(first.tags['MaxSampleValue'].value)).bit_length()
        elif 8 < int(np.max(first.bitspersample)) < 16:
            bits = int(np.max(first.bitspersample))
        if first.photometric == tifffile.PHOTOMETRIC.MINISWHITE and channels == RGB:
            values = np.invert(values) if values.dtype.kind == 'u' else values
        turn = first.tags.get('Orientation')
        if turn is not None and turn.value in _ORIENTED:
            values = _ORIENTED[turn.value](values)
        return values[..., : bands - alpha], bits


def _has_alpha(page: Any) -> bool:
    if page.photometric == tifffile.PHOTOMETRIC.RGB:
        return page.samplesperpixel == 4
    kinds = {int(kind) for kind in page.extrasamples}
    return page.samplesperpixel == 2 and bool(kinds & {1, 2})


def _alike(tiff: Any, first: Any, limit: int) -> list:
    """The pages that are bands: those like the first, neither masks nor previews."""

    def is_band(page: Any) -> bool:
        same = page.shape == first.shape and page.dtype == first.dtype
        return same and not (page.is_reduced or page.is_mask)

    bands = (page for page in tiff.pages if is_band(page))
    return list(itertools.islice(bands, limit))


def _page_values(page: Any, content: bytes) -> np.ndarray:
    """Values of a TIFF's page, (height, width, samples)."""
    try:
        values = page.asarray(maxworkers=1)
    except ValueError as error:
        if 'imagecodecs' not in str(error):
            raise
        values = _by_opencv(page, content)
        if values is None:
            name = getattr(page.compression, 'name', page.compression)
            raise ValueError(
                f'its compression {name} needs the package imagecodecs '
                '(pip install imagecodecs)'
            ) from None
    if page.axes == 'SYX':
        return values.transpose(1, 2, 0)
    return values.reshape(page.imagelength, page.imagewidth, page.samplesperpixel)


def _by_opencv(page: Any, content: bytes) -> np.ndarray | None:
    """Values of a page that OpenCV can read: up to 4 samples, LZW among others."""
    if page.samplesperpixel > 4 or page.axes == 'SYX':
        return None
    number, flags = page.index, cv2.IMREAD_UNCHANGED
    done, pages = cv2.imdecodemulti(
        np.frombuffer(content, np.uint8), flags, range=(number, number + 1)
    )
    if not done or pages[0].dtype != page.dtype:
        return None
    values = pages[0].reshape(page.imagelength, page.imagewidth, -1)
    if values.shape[2] != page.samplesperpixel:
        return None
    return in_file_order(values)


def in_file_order(values: np.ndarray) -> np.ndarray:
    """Turn OpenCV's blue, green, red (and alpha) into red, green, blue."""
    if values.shape[2] < 3:
        return values
    return values[..., [2, 1, 0, *range(3, values.shape[2])]]


def _read_npy(file: Any, channels: int | str, max_pixels: int) -> np.ndarray:
    shape, dtype = _npy_header(file)
    # An array of this shape that takes no memory.
    seen = _in_image_order(np.broadcast_to(np.empty((), dtype), shape), channels)
    check_size(seen.shape[1], seen.shape[0], max_pixels)
    if 0 in shape:
        raise ValueError(f'an array of shape {shape} is empty')
    check_bands(seen.shape[2], dtype, channels, alpha=False)
    file.seek(0)
    values = np.lib.format.read_array(file, allow_pickle=False)
    return _in_image_order(values, channels)


def _in_image_order(values: np.ndarray, channels: int | str) -> np.ndarray:
    """Bring an array to (height, width, bands)."""
    wanted = (1, 3) if channels == RGB else (channels,)
    if values.ndim == 2:
        return values[..., None]
    if values.ndim != 3:
        raise ValueError(f'an array of shape {values.shape} is no image')
    first = values.shape[2] not in wanted and values.shape[0] in wanted
    return values.transpose(1, 2, 0) if first else values


def _npy_header(file: Any) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(file)
    if version > (2, 0):
        raise ValueError(f'version {version} of the npy format is not supported')
    first = version == (1, 0)
    read = getattr(np.lib.format, f'read_array_header_{1 if first else 2}_0')
    shape, _, dtype = read(file)
    if dtype.hasobject or dtype.kind not in 'uif':
        raise ValueError(f'an array of {dtype} is no image')
    return shape, dtype


def _read_npz(content: bytes, channels: int | str, max_pixels: int) -> np.ndarray:
    """One array of any shape, or one array (height, width) for each band."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [n for n in archive.namelist() if n.endswith('.npy')]
        if len(names) == 1:
            with archive.open(names[0]) as file:
                return _read_npy(file, channels, max_pixels)
        headers = []
        for name in names:
            with archive.open(name) as file:
                headers.append(_npy_header(file))
        if len(set(headers)) != 1 or len(headers[0][0]) != 2:
            raise ValueError(
                'an .npz must hold one image, or one array (height, width) for each '
                f'band, but holds {", ".join(names) or "none"}'
            )
        (height, width), dtype = headers[0]
        check_size(width, height, max_pixels)
        check_bands(len(names), dtype, channels, alpha=False)
        bands = []
        for name in names:
            with archive.open(name) as file:
                bands.append(np.lib.format.read_array(file, allow_pickle=False))
        return np.stack(bands, axis=2)


def _read_dicom(
    content: bytes, channels: int | str, max_pixels: int
) -> tuple[np.ndarray, int | None]:
    """Frames and samples as bands, with the rescale slope and intercept applied."""
    try:
        from pydicom import dcmread
    except ImportError:
        raise ValueError(
            'DICOM needs the package pydicom (pip install pydicom)'
        ) from None
    if b'1.2.840.10008.1.2.1.99' in content[:2048]:
        # Reading its header would inflate all of it, whatever its size.
        raise ValueError('a deflated DICOM file is not supported')
    header = dcmread(io.BytesIO(content), stop_before_pixels=True)
    height, width = int(header.Rows), int(header.Columns)
    check_size(width, height, max_pixels)
    frames = int(header.get('NumberOfFrames', None) or 1)
    samples = int(header.SamplesPerPixel)
    kind = 'int' if header.PixelRepresentation else 'uint'
    dtype = np.dtype(f'{kind}{header.BitsAllocated}')
    check_bands(frames * samples, dtype, channels, alpha=False)
    values = dcmread(io.BytesIO(content)).pixel_array
    values = values.reshape(frames, height, width, samples)
    values = values.transpose(1, 2, 0, 3).reshape(height, width, -1)
    slope = float(header.get('RescaleSlope', None) or 1)
    intercept = float(header.get('RescaleIntercept', None) or 0)
    if (slope, intercept) == (1, 0):
        return values, int(header.BitsStored) if values.dtype == np.uint16 else None
    return values * np.float32(slope) + np.float32(intercept), None
