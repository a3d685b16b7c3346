"""Make one image small enough to be read fast, or leave it as it is."""

from __future__ import annotations

import io
import re

import cv2
from PIL import UnidentifiedImageError

from ..decoding import decode, open_image

#: First bytes of files that may hold more than 8-bit RGB and that PIL cannot open: TIFF
#: of any kind, numpy's .npy and .npz.
_ARRAYS = (b'II*\0', b'MM\0*', b'II+\0', b'MM\0+', b'\x93NUMPY', b'PK\x03\x04')
_PLAIN_MODES = {'1', 'L', 'LA', 'P', 'PA', 'RGB', 'RGBA', 'RGBX', 'CMYK', 'YCbCr'}
# Of a JPEG's sides, which have 16 bits.
_LONGEST = 65500


def shrink(content: bytes, short_side: int, quality: int) -> tuple[bytes, bool]:
    """Make an image smaller and encode it as JPEG if that loses nothing but size.

    It keeps its bytes if its shorter side is not longer than ``short_side``, or if it
    holds more than 8 bits, other bands than a color and its transparency, or several
    pages.

    Returns:
        tuple[bytes, bool]: Content of an image file, and whether it is a new JPEG.
    """
    if holds_more(content):
        return content, False
    img = decode(content)
    height, width = img.shape[:2]
    scale = short_side / min(height, width)
    if scale >= 1:
        return content, False
    size = max(1, round(width * scale)), max(1, round(height * scale))
    if max(size) > _LONGEST:
        return content, False
    img = cv2.resize(img, size, interpolation=cv2.INTER_AREA)
    encoded = cv2.imencode('.jpg', img, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return encoded.tobytes(), True


def holds_more(content: bytes) -> bool:
    """Whether a file holds more than one image of 8 bits and a color."""
    if content.startswith(b'\xff\xd8\xff'):  # a JPEG, whatever is behind it
        return False
    if content[128:132] == b'DICM':
        return True
    try:
        img = open_image(io.BytesIO(content))
    except UnidentifiedImageError:
        return content.startswith(_ARRAYS)
    with img:
        if img.mode not in _PLAIN_MODES or getattr(img, 'n_frames', 1) > 1:
            return True
        check = _BY_FORMAT.get(img.format)
        return check is not None and check(content, img)


def _png(content: bytes, img) -> bool:
    return content[24] > 8  # PIL keeps 8 of the 16 bits


def _tiff(content: bytes, img) -> bool:
    bits, samples = img.tag_v2.get(258, (1,)), img.tag_v2.get(277, 1)
    return max(bits) > 8 or (samples > 3 and img.mode != 'CMYK')


def _pnm(content: bytes, img) -> bool:
    words = re.sub(rb'#[^\n]*', b'', content[:2000]).split(maxsplit=4)
    return words[0] in (b'P2', b'P3', b'P5', b'P6') and int(words[3]) > 255


def _jpeg2000(content: bytes, img) -> bool:
    # Number of components, and bits of each less one, in the box or the codestream.
    place = content.find(b'ihdr')
    if place > 0:
        bands, bits = content[place + 12 : place + 14], [content[place + 14]]
    else:
        place = content.find(b'\xff\x4f\xff\x51')
        bands = content[place + 40 : place + 42]
        bits = list(content[place + 42 : place + 42 + 3 * bands[1] : 3])
    return int.from_bytes(bands, 'big') > 3 or max(b & 0x7F for b in bits) + 1 > 8


def _avif(content: bytes, img) -> bool:
    place = content.find(b'av1C')
    return bool(content[place + 6] & 0x40)  # more than 8 bits


_BY_FORMAT = {
    'PNG': _png,
    'TIFF': _tiff,
    'PPM': _pnm,
    'JPEG2000': _jpeg2000,
    'AVIF': _avif,
}
