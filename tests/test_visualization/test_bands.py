"""Pictures of images with other bands than red, green and blue."""

import numpy as np
import pytest
import tifffile
import torch
from mmengine.config import Config
from PIL import Image

from mmbam.evaluation.frozen import loading_step, plain_pipeline
from mmbam.visualization.attention import look
from mmbam.visualization.bands import default_bands, image_reader
from mmbam.visualization.figures import to_picture

FIVE = np.random.default_rng(0).integers(0, 65536, (16, 24, 5)).astype(np.uint16)


def config(**load):
    pipeline = [dict(type='mmbam.LoadImage', max_errors=9, **load)]
    return Config(dict(train_dataloader=dict(dataset=dict(pipeline=pipeline))))


def test_three_bands_are_chosen_and_scaled():
    eight = (FIVE >> 8).astype(np.uint8)
    np.testing.assert_array_equal(to_picture(eight, (4, 0, 2)), eight[..., [4, 0, 2]])
    shown = to_picture(FIVE.astype(np.float32), (4, 0, 2))
    assert shown.dtype == np.uint8 and shown.min() == 0 and shown.max() == 255
    order = np.argsort(FIVE[..., 4].ravel())
    assert (np.diff(shown[..., 0].ravel()[order].astype(int)) >= 0).all()
    assert to_picture(eight[..., :1]).shape == (16, 24, 3)
    with pytest.raises(ValueError, match='bands must be three numbers from 0 to 4'):
        to_picture(eight, (0, 1, 5))


def test_images_are_read_as_the_config_reads_them(tmp_path):
    five, png = tmp_path / 'five.tif', tmp_path / 'a.png'
    tifffile.imwrite(five, FIVE, photometric=1, planarconfig='contig')
    rgb = (FIVE[..., :3] >> 8).astype(np.uint8)
    Image.fromarray(rgb).save(png)
    read, bands = image_reader(config())
    assert bands is None
    np.testing.assert_array_equal(read(png), rgb)
    read, bands = image_reader(config(channels=5, depth='full'))
    assert bands == (0, 1, 2)
    np.testing.assert_array_equal(read(five), FIVE)
    read, bands = image_reader(config(), bands=(2, 1, 0))  # BGR as loaded
    np.testing.assert_array_equal(to_picture(read(png), bands), rgb)
    with pytest.raises(ValueError, match="a.png' does not fit: it has 3 bands"):
        image_reader(config(channels=5))[0](png)
    assert default_bands(config(channels=2)) == (0, 1, 1)
    assert default_bands(config(depth='full')) == (2, 1, 0)


def test_an_evaluation_loads_what_training_loads():
    load = loading_step(config(channels=5, depth='full', bits=12))
    assert load == dict(
        type='mmbam.LoadImage', max_errors=0, channels=5, depth='full', bits=12
    )
    assert plain_pipeline(8, load)[1] == dict(type='mmbam.ResizeShortSide', scale=8)
    assert plain_pipeline(8, loading_step(config())) == plain_pipeline(8)


def test_a_network_of_five_bands_is_looked_through():
    seen = []

    class Network(torch.nn.Conv2d):
        def forward(self, images):
            seen.append(images)
            return (super().forward(images),)

    def preprocess(data):
        return dict(inputs=data['inputs'].float())

    gaze = look(
        Network(5, 4, 8, 8), preprocess, FIVE.astype(np.float32), 16, bands=(4, 0, 1)
    )
    assert gaze.image.shape == (16, 24, 3) and gaze.image.dtype == np.uint8
    expected = torch.from_numpy(FIVE.astype(np.float32)).permute(2, 0, 1)
    torch.testing.assert_close(seen[0][0], expected, rtol=1e-3, atol=1.0)
