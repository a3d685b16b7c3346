"""Pipes, devices and images of enormous size: passed over, counted and named."""

import io
import os
import struct
import tracemalloc
import zlib

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from mmpretrain.datasets import CustomDataset
from PIL import Image

from mmbam.datasets.decoding import MAX_PIXELS, decode, open_image, read_image
from mmbam.datasets.finding import find_images
from mmbam.datasets.transforms import LoadImage
from mmbam.evaluation.video.davis import _size
from mmbam.utils.errors import InputError
from tests.helpers.run import ROOT

NOISE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)


def bomb_png(side=30_000) -> bytes:
    """A small PNG of very many black pixels."""

    def chunk(kind, content):
        crc = zlib.crc32(kind + content)
        return struct.pack('>I', len(content)) + kind + content + struct.pack('>I', crc)

    packer = zlib.compressobj(9)
    row = bytes(1 + side // 8)  # 1 bit of gray
    data = b''.join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack('>IIBBBBB', side, side, 1, 0, 0, 0, 0)
    parts = chunk(b'IHDR', header), chunk(b'IDAT', data), chunk(b'IEND', b'')
    return b'\x89PNG\r\n\x1a\n' + b''.join(parts)


def bomb_jpeg() -> bytes:
    """A photograph whose header claims 65,000 x 65,000."""
    content = cv2.imencode('.jpg', NOISE)[1].tobytes()
    place = content.index(b'\xff\xc0') + 5
    return content[:place] + struct.pack('>HH', 65_000, 65_000) + content[place + 4 :]


def bomb_gif() -> bytes:
    file = io.BytesIO()
    Image.new('P', (8, 8)).save(file, 'GIF')
    content = file.getvalue()
    return content[:6] + struct.pack('<HH', 65_000, 65_000) + content[10:]


def bomb_tiff() -> bytes:
    file = io.BytesIO()
    Image.new('1', (20_000, 20_000)).save(
        file, 'TIFF', compression='tiff_adobe_deflate'
    )
    return file.getvalue()


BOMBS = dict(png=bomb_png, jpg=bomb_jpeg, gif=bomb_gif, tiff=bomb_tiff)


@pytest.mark.parametrize('kind', BOMBS)
def test_an_enormous_image_is_refused_by_its_header(kind):
    content = BOMBS[kind]()
    tracemalloc.start()
    with pytest.raises(ValueError, match='pixels are more than the 200,000,000'):
        decode(content)
    assert tracemalloc.get_traced_memory()[1] < 2**20, 'nothing was decoded'
    tracemalloc.stop()


def test_the_limit_is_an_argument(tmp_path):
    content = cv2.imencode('.png', NOISE)[1].tobytes()
    (tmp_path / 'a.png').write_bytes(content)
    assert decode(content, max_pixels=48 * 64).shape == (48, 64, 3)
    with pytest.raises(InputError, match='a.png.*64 x 48 pixels are more than the 100'):
        read_image(tmp_path / 'a.png', max_pixels=100)
    load = LoadImage(max_pixels=100)
    assert load(dict(img_path=str(tmp_path / 'a.png'))) is None
    assert list(load.errors.paths()) == [str(tmp_path / 'a.png')]
    with pytest.raises(ValueError, match='max_pixels must be an int above 0, got 0'):
        LoadImage(max_pixels=0)


@pytest.mark.parametrize('progressive', [False, True])
@pytest.mark.parametrize('extra', [b'', b'\xff\xe1\x00\x06\xff\xc0ab', b'\xff\xff'])
def test_the_size_of_a_jpeg_is_found_as_the_decoder_finds_it(progressive, extra):
    """Also behind a segment that looks like a frame, and behind fill bytes."""
    flags = [cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive)]
    content = cv2.imencode('.jpg', NOISE, flags)[1].tobytes()
    content = content[:2] + extra + content[2:]
    assert decode(content, max_pixels=48 * 64).shape == (48, 64, 3)
    with pytest.raises(ValueError, match='64 x 48'):
        decode(content, max_pixels=48 * 64 - 1)


def test_large_images_below_the_limit_are_read_by_pil(recwarn):
    """PIL alone would warn of 100 million pixels and refuse 190 million."""
    file = io.BytesIO()
    Image.new('1', (14_000, 13_000)).save(file, 'TIFF', compression='group4')
    assert 178_956_970 < 14_000 * 13_000 < MAX_PIXELS
    limit = Image.MAX_IMAGE_PIXELS
    assert open_image(file).size == (14_000, 13_000)
    assert not recwarn.list and Image.MAX_IMAGE_PIXELS == limit


@pytest.fixture
def strange(tmp_path):
    """A good image, a pipe, a device behind a link, and a bomb."""
    Image.fromarray(NOISE).save(tmp_path / 'a_good.png')
    os.mkfifo(tmp_path / 'b_pipe.png')
    (tmp_path / 'c_zero.png').symlink_to('/dev/zero')
    (tmp_path / 'd_bomb.png').write_bytes(bomb_png())
    return tmp_path


def test_strange_files_are_counted_and_named(strange, caplog):
    load = LoadImage(max_errors=3)
    files = sorted(strange.iterdir())
    loaded = [load(dict(img_path=str(file))) is not None for file in files]
    assert loaded == [True, False, False, False]
    reasons = load.errors.paths()
    assert list(reasons) == [str(file) for file in files[1:]]
    *irregular, bomb = reasons.values()
    assert irregular == ['OSError: this is not a regular file'] * 2
    assert bomb.startswith('ValueError: 30000 x 30000 pixels are more than')


def test_commands_on_folders_pass_over_them(strange, caplog):
    found = find_images(strange)
    assert [file.name for file in found] == ['a_good.png', 'd_bomb.png']
    for name in ('b_pipe.png', 'c_zero.png'):
        with pytest.raises(InputError, match=f'{name}.*not a regular file'):
            read_image(strange / name)
        with pytest.raises(InputError, match=f'{name}.*not a regular file'):
            _size(strange / name)  # of a video's frame
    for read in (read_image, _size):
        with pytest.raises(InputError, match='d_bomb.png.*30000 x 30000'):
            read(strange / 'd_bomb.png')


def test_folder_data_sets_never_wait_for_a_pipe(strange):
    dataset = CustomDataset(
        data_root=str(strange), with_label=False, pipeline=[LoadImage()]
    )
    for i in range(len(dataset)):
        assert dataset[i]['img_path'].endswith('a_good.png')


@pytest.mark.parametrize(
    'config', sorted(str(path) for path in (ROOT / 'configs/tiny').glob('*.py'))
)
def test_tiny_configs_load_images_in_this_way(config):
    cfg = Config.fromfile(config)
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        text = repr(cfg.get(loader))
        assert 'LoadImageFromFile' not in text
        assert loader != 'train_dataloader' or 'mmbam.LoadImage' in text
    assert 'LoadImageFromFile' not in repr(cfg.get('custom_hooks'))
