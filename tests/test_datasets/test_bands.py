"""Every band and bit of files that other libraries wrote, or a sentence."""

import io
import struct
import tracemalloc
import zipfile
import zlib

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from mmbam.datasets.bands import RGB, WrongBands
from mmbam.datasets.decoding import decode

RNG = np.random.default_rng(0)
WIDE = RNG.integers(0, 65536, (12, 17, 5)).astype(np.uint16)
TYPES = {
    'uint8': WIDE.astype(np.uint8),
    'uint16': WIDE,
    'int16': WIDE.view(np.int16),
    'float32': (WIDE / 7 - 900).astype(np.float32),
}


def full(content, channels, **kwargs):
    return decode(content, channels=channels, depth='full', **kwargs)


def assert_read(content, image):
    made = full(content, image.shape[2])
    assert made.dtype == image.dtype and made.dtype.isnative
    np.testing.assert_array_equal(made, image)


def tiff(values, **kwargs):
    file = io.BytesIO()
    tifffile.imwrite(file, values, photometric=kwargs.pop('photometric', 0), **kwargs)
    return file.getvalue()


def numpys(save, *arrays, **named):
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


@pytest.mark.parametrize('dtype', TYPES)
@pytest.mark.parametrize('layout', ['interleaved', 'planar', 'pages'])
def test_tiff_of_tifffile(dtype, layout):
    image = TYPES[dtype]
    if layout == 'interleaved':
        content = tiff(image, photometric=1, planarconfig='contig')
    else:
        planar = dict(planarconfig='separate') if layout == 'planar' else {}
        content = tiff(image.transpose(2, 0, 1), photometric=1, **planar)
    assert_read(content, image)


@pytest.mark.parametrize(
    'kwargs',
    [
        dict(byteorder='>'),
        dict(bigtiff=True),
        dict(compression='zlib', predictor=True),
        dict(tile=(16, 16)),
        dict(rowsperstrip=5),
    ],
)
def test_tiff_in_other_forms(kwargs):
    assert_read(tiff(WIDE, photometric=1, planarconfig='contig', **kwargs), WIDE)


def test_previews_and_masks_of_a_tiff_are_no_bands():
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        for band in WIDE.transpose(2, 0, 1):
            writer.write(band, photometric=1)
            writer.write(band[::2, ::2], photometric=1, subfiletype=1)
    assert_read(file.getvalue(), WIDE)


def test_tiff_of_pillow():
    pages = [Image.fromarray(WIDE[..., i]) for i in range(3)]
    file = io.BytesIO()
    pages[0].save(file, 'TIFF', save_all=True, append_images=pages[1:])
    assert_read(file.getvalue(), WIDE[..., :3])
    rgb = Image.fromarray(TYPES['uint8'][..., :3])
    for compression in ('raw', 'tiff_lzw', 'tiff_adobe_deflate', 'packbits'):
        file = io.BytesIO()
        rgb.save(file, 'TIFF', compression=compression)
        assert_read(file.getvalue(), np.asarray(rgb))


@pytest.mark.parametrize('bands', [1, 3, 4])
@pytest.mark.parametrize('kind', ['png', 'tiff'])
def test_png_and_tiff_of_opencv(kind, bands):
    """OpenCV compresses TIFFs with LZW, and takes its bands as blue, green, red."""
    for image in (WIDE, TYPES['uint8']):
        image = image[..., :bands]
        theirs = image[..., [2, 1, 0, 3][:bands]] if bands > 1 else image
        assert_read(cv2.imencode(f'.{kind}', theirs)[1].tobytes(), image)


def test_png_of_pillow():
    eight = TYPES['uint8']
    for image in (WIDE[..., :1], *(eight[..., :n] for n in (1, 2, 3, 4))):
        file = io.BytesIO()
        Image.fromarray(image.squeeze()).save(file, 'PNG')
        assert_read(file.getvalue(), image)


@pytest.mark.parametrize('dtype', TYPES)
def test_arrays_of_numpy(dtype):
    image = TYPES[dtype]
    bands = {f'B{i}': image[..., i] for i in range(5)}
    planar = np.ascontiguousarray(image.transpose(2, 0, 1))
    for content in (
        numpys(np.save, image),
        numpys(np.save, planar),
        numpys(np.save, np.asfortranarray(image)),
        numpys(np.save, image.astype(image.dtype.newbyteorder('>'))),
        numpys(np.savez, image),
        numpys(np.savez_compressed, image=planar),
        numpys(np.savez, **bands),
        numpys(np.savez_compressed, **bands),
    ):
        assert_read(content, image)
    assert_read(numpys(np.save, image[..., 0]), image[..., :1])


def test_other_floats_become_float32():
    image = TYPES['float32'].astype(np.float64)
    assert_read(numpys(np.save, image), TYPES['float32'])


def dicom(values, frames=1, samples=1, stored=12, **tags):
    pydicom = pytest.importorskip('pydicom', reason='DICOM is an extra')
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
    file = FileDataset(None, {}, file_meta=meta, preamble=bytes(128))
    file.Rows, file.Columns = values.shape[-2:]
    file.SamplesPerPixel, file.PhotometricInterpretation = samples, 'MONOCHROME2'
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, stored, stored - 1
    file.PixelRepresentation = int(values.dtype.kind == 'i')
    if frames > 1:
        file.NumberOfFrames = frames
    for name, value in tags.items():
        setattr(file, name, value)
    file.PixelData = values.tobytes()
    content = io.BytesIO()
    pydicom.dcmwrite(content, file, enforce_file_format=True)
    return content.getvalue()


def test_dicom_of_pydicom():
    twelve = WIDE >> 4
    assert_read(dicom(twelve[..., 0]), twelve[..., :1])
    frames = np.ascontiguousarray(twelve.transpose(2, 0, 1))
    assert_read(dicom(frames, frames=5), twelve)
    signed = (twelve[..., :1] // 2).astype(np.int16) - 1000
    assert_read(dicom(signed[..., 0], stored=16), signed)
    content = dicom(signed[..., 0], stored=16, RescaleSlope=2, RescaleIntercept=-24)
    assert_read(content, signed.astype(np.float32) * 2 - 24)
    # BitsStored says what the upper 8 bits are.
    np.testing.assert_array_equal(
        decode(dicom(twelve[..., 0] >> 5, stored=12))[..., 0], twelve[..., 0] >> 9
    )


@pytest.mark.parametrize(
    ('content', 'channels', 'found'),
    [
        (tiff(WIDE, photometric=1, planarconfig='contig'), RGB, '5 bands of uint16'),
        (tiff(WIDE, photometric=1, planarconfig='contig'), 4, '5 bands of uint16'),
        (tiff(WIDE.transpose(2, 0, 1), photometric=1), 6, '5 bands of uint16'),
        (tiff(WIDE.transpose(2, 0, 1), photometric=1), 3, 'more than 3 bands'),
        (numpys(np.save, TYPES['float32']), 4, '5 bands of float32'),
        (numpys(np.savez, a=WIDE[..., 0], b=WIDE[..., 1]), 5, '2 bands of uint16'),
        (cv2.imencode('.png', WIDE[..., :3])[1].tobytes(), 5, '3 bands of uint16'),
        (cv2.imencode('.jpg', WIDE[..., 0] >> 8)[1].tobytes(), 3, '1 band of uint8'),
    ],
)
def test_another_number_of_bands_is_a_sentence(content, channels, found):
    with pytest.raises(WrongBands, match=f'{found}.* channels={channels!r} of mmbam'):
        full(content, channels)


def test_the_default_is_the_first_page_of_a_tiff_in_8_bits():
    made = decode(tiff(WIDE.transpose(2, 0, 1), photometric=1))
    np.testing.assert_array_equal(made, (WIDE[..., :1] >> 8).repeat(3, 2))


@pytest.mark.parametrize('kind', ['png', 'tiff', 'npy'])
@pytest.mark.parametrize('bits', [10, 12])
def test_data_of_10_and_12_bits_are_scaled_not_blackened(kind, bits):
    image = WIDE[..., :3] >> (16 - bits)
    image[0, 0] = 2**bits - 1
    said = []
    if kind == 'npy':
        content = numpys(np.save, image)
    else:
        content = cv2.imencode(f'.{kind}', image[..., ::-1])[1].tobytes()
    made = decode(content, say=said.append)
    np.testing.assert_array_equal(made[..., ::-1], image >> (bits - 8))
    assert len(said) == 1 and f'{bits} bits (by the highest value)' in said[0]
    # Declared, a dark image stays dark.
    dark = decode(numpys(np.save, image >> 6), bits=bits)
    np.testing.assert_array_equal(dark[..., ::-1], image >> (bits - 2))
    np.testing.assert_array_equal(
        decode(content, channels=3, bits=bits), image >> (bits - 8)
    )


def test_headers_that_declare_bits_are_believed():
    dark = WIDE[..., 0] >> 8  # of 12 bits
    content = cv2.imencode('.png', dark)[1].tobytes()
    assert decode(content).max() > 50, 'by the highest value alone'
    for made in (
        decode(with_chunk(content, b'sBIT', b'\x0c')),
        decode(tiff(dark, photometric=1, extratags=[(281, 3, 1, 4095, True)])),
    ):
        np.testing.assert_array_equal(made[..., 0], dark >> 4)


def with_chunk(content, kind, data):
    """A PNG with one more chunk behind its header."""
    chunk = struct.pack('>I', len(data)) + kind + data
    chunk += struct.pack('>I', zlib.crc32(kind + data))
    return content[:33] + chunk + content[33:]


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (numpys(np.save, TYPES['float32'][..., :3]), '32-bit floats.*depth='),
        (numpys(np.save, TYPES['int16'][..., :3]), 'int16.*depth='),
        (numpys(np.save, WIDE[..., :3].astype(np.int32)), 'int32 are not supported'),
        (numpys(np.save, np.full((4, 4), np.nan)), 'not finite'),
        (numpys(np.save, np.zeros((2, 3, 4, 5))), 'is no image'),
        (numpys(np.save, np.zeros((0, 3))), 'is empty'),
        (numpys(np.savez, a=WIDE, b=WIDE), 'one image, or one array'),
    ],
)
def test_values_that_are_no_image_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        decode(content)


class Bomb:
    def __reduce__(self):
        return pytest.fail, ('the file ran code',)


@pytest.mark.parametrize('save', [np.save, np.savez])
def test_pickles_are_never_read(save):
    with pytest.raises(ValueError, match='object is no image'):
        full(numpys(save, np.array([[Bomb()]], object)), 1)


def huge_npy(shape=(60_000, 60_000)):
    header = repr(dict(descr='<f4', fortran_order=False, shape=shape)).encode()
    header = header.ljust(117) + b'\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header


def huge_npz(shape=(60_000, 60_000)):
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('a.npy', huge_npy(shape) + bytes(2**22))
    return file.getvalue()


def huge_tiff():
    """A TIFF whose header claims 60,000 x 60,000."""
    content = tiff(WIDE[..., 0], photometric=1)
    with tifffile.TiffFile(io.BytesIO(content)) as file:
        tags = [file.pages[0].tags[name] for name in ('ImageWidth', 'ImageLength')]
    for tag in tags:
        code = {3: '<H', 4: '<I'}[tag.dtype]
        value = struct.pack(code, 60_000)
        place = tag.valueoffset
        content = content[:place] + value + content[place + len(value) :]
    return content


@pytest.mark.parametrize('make', [huge_npy, huge_npz, huge_tiff])
def test_an_enormous_image_is_refused_by_its_header(make):
    content = make()
    tracemalloc.start()
    with pytest.raises(ValueError, match='pixels are more than the 200,000,000'):
        full(content, 1)
    assert tracemalloc.get_traced_memory()[1] < 2**20, 'nothing was decoded'
    tracemalloc.stop()


def test_many_bands_are_refused_by_the_header():
    for content in (huge_npy((9000, 9000, 4000)), huge_npz((9000, 9000, 4000))):
        with pytest.raises(WrongBands, match='4000 bands of float32'):
            full(content, 5)
    content = dicom(WIDE[..., 0], stored=16, NumberOfFrames=4000)
    with pytest.raises(WrongBands, match='4000 bands'):
        full(content, 5)


@pytest.mark.parametrize('share', [0.02, 0.5, 0.98])
def test_a_truncated_file_is_an_error(share):
    for content in (
        tiff(WIDE, photometric=1, planarconfig='contig'),
        tiff(WIDE.transpose(2, 0, 1), photometric=1),
        cv2.imencode('.png', WIDE[..., :3])[1].tobytes(),
        numpys(np.save, WIDE),
        numpys(np.savez_compressed, WIDE),
    ):
        channels = 3 if content[:1] == b'\x89' else 5
        with pytest.raises(Exception):  # noqa: B017, of many types, by decoder
            full(content[: int(share * len(content))], channels)
