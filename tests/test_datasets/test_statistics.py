"""Mean and deviation of bands, image by image, and the command that prints them."""

import argparse

import numpy as np
import pytest
import tifffile

from mmbam.cli import stats
from mmbam.datasets.statistics import band_statistics
from mmbam.datasets.transforms import LoadImage
from mmbam.models import BandsPreprocessor
from mmbam.utils.errors import InputError

RNG = np.random.default_rng(0)


@pytest.fixture
def images(tmp_path):
    made = []
    for i in range(6):
        shape = (10 + i, 20 - i, 5)
        made.append(RNG.normal(20000 + 100 * i, 300, shape).astype(np.uint16))
        tifffile.imwrite(tmp_path / f'{i}.tif', made[-1], photometric=1,
                         planarconfig='contig')  # fmt: skip
    return tmp_path, made


def run(folder, *words):
    parser = argparse.ArgumentParser()
    stats.add_arguments(parser)
    return stats.run(parser.parse_args([str(folder), *words]))


def test_they_are_those_of_all_pixels_together():
    parts = [RNG.normal(1e6, 1, (5, n, 3)).astype(np.float32) for n in (3, 50, 7)]
    images = dict(zip('abc', parts))
    together, _ = band_statistics('abc', lambda r: dict(img=images[r['img_path']]))
    pixels = np.concatenate([p.reshape(-1, 3) for p in parts]).astype(float)
    np.testing.assert_allclose(together.mean, pixels.mean(0), rtol=1e-12)
    np.testing.assert_allclose(together.std, pixels.std(0), rtol=1e-9)
    assert together.pixels == len(pixels)


def test_the_command_prints_a_preprocessor(images, capsys):
    folder, made = images
    preprocessor = run(folder, '--channels', '5', '--depth', 'full')
    pixels = np.concatenate([image.reshape(-1, 5) for image in made]).astype(float)
    np.testing.assert_allclose(preprocessor['mean'], pixels.mean(0), rtol=1e-5)
    np.testing.assert_allclose(preprocessor['std'], pixels.std(0), rtol=1e-5)
    printed = capsys.readouterr().out
    scope: dict = {}
    exec(printed[printed.index('# ') :], scope)  # it can be pasted into a config
    assert scope['data_preprocessor'] == preprocessor
    assert preprocessor.pop('type') == 'mmbam.BandsPreprocessor'
    BandsPreprocessor(**preprocessor)
    assert '# 6 of 6 images' in printed
    # Of 8 bits without more words, and with unreadable images left out.
    (folder / 'a.tif').write_bytes(b'nothing')
    assert max(run(folder, '--channels', '5')['mean']) < 256
    assert '# 6 of 7 images' in capsys.readouterr().out


def test_rgb_is_in_the_order_of_the_preprocessor(tmp_path, capsys):
    from PIL import Image

    image = RNG.integers(0, 50, (8, 8, 3)).astype(np.uint8) + np.uint8([200, 100, 0])
    Image.fromarray(image).save(tmp_path / 'a.png')
    preprocessor = run(tmp_path)
    np.testing.assert_allclose(preprocessor['mean'], image.mean((0, 1)), rtol=1e-4)
    assert preprocessor['to_rgb'] and preprocessor['type'] == 'SelfSupDataPreprocessor'


def test_a_sample_is_drawn_once_and_the_same_with_the_same_seed(images):
    folder, _ = images
    load = LoadImage(channels=5, depth='full')
    files = sorted(folder.glob('*.tif'))
    results = [
        band_statistics(files, load, 3, seed, progress=False) for seed in (0, 0, 1)
    ]
    assert all(number == 3 for _, number in results)
    assert (results[0][0].mean == results[1][0].mean).all()
    assert (results[0][0].mean != results[2][0].mean).any()


def test_what_cannot_be_measured_is_a_sentence(images, tmp_path):
    folder, _ = images
    with pytest.raises(InputError, match='it has 5 bands of uint16'):
        run(folder)
    with pytest.raises(InputError, match='--number must be at least 1, got 0'):
        run(folder, '--number', '0')
    with pytest.raises(InputError, match='channels must be'):
        run(folder, '--channels', '0')
    tifffile.imwrite(tmp_path / 'flat.tif',
                     np.ones((8, 8), np.uint16), photometric=1)  # fmt: skip
    with pytest.raises(InputError, match=r'Bands \[0\] have one value everywhere'):
        run(tmp_path / 'flat.tif', '--channels', '1')
