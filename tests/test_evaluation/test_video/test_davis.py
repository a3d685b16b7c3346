"""DAVIS on disk: what is there is read, what is not is named."""

import cv2
import numpy as np
import pytest
from PIL import Image

from mmbam.evaluation.video import read_davis, read_labels, write_labels
from tests.helpers.videos import make_davis, make_odd


@pytest.fixture
def root(tmp_path):
    return make_davis(tmp_path / 'DAVIS', lengths=(4, 3))


def mask(root, index=1, video='val-00'):
    return root / 'Annotations/480p' / video / f'{index:05}.png'


def test_sequences_in_the_order_of_the_list(root):
    videos = read_davis(root)
    assert [v.name for v in videos] == ['val-00', 'val-01']
    assert [len(v.frames) for v in videos] == [4, 3]
    assert [f.name for f in videos[1].frames] == ['00000.jpg', '00001.jpg', '00002.jpg']
    assert videos[0].read_frame(0).shape == (64, 64, 3)
    frame = cv2.imread(str(videos[0].frames[2]))
    assert np.array_equal(videos[0].read_frame(2), frame)


def test_label_maps_keep_the_palette_and_the_labels(root, tmp_path):
    labels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    path = tmp_path / 'new' / 'a.png'
    write_labels(path, labels)
    assert np.array_equal(read_labels(path), labels)
    with Image.open(path) as ours, Image.open(mask(root)) as given:
        assert ours.mode == given.mode == 'P'
        palette = ours.getpalette()
        assert palette[: len(given.getpalette())] == given.getpalette()
    assert palette[:15] == [0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0, 0, 0, 128]


def test_void_is_no_object(root):
    labels = read_labels(mask(root, 0))
    labels[:4] = 255
    write_labels(mask(root, 0), labels)
    first = read_davis(root)[0].first_labels()
    assert first.max() < 255 and not first[:4].any()


def test_without_scores_only_the_first_frame_needs_an_annotation(root):
    for path in mask(root).parent.iterdir():
        if path.name != '00000.png':
            path.unlink()
    assert len(read_davis(root, scored=False)) == 2
    with pytest.raises(FileNotFoundError, match="'val-00' lacks 3 of 4 annotations"):
        read_davis(root)


def test_a_video_of_one_or_two_frames_cannot_be_scored(tmp_path):
    for frames in (1, 2):
        make_odd(tmp_path, frames=frames)
        with pytest.raises(ValueError, match=f"'odd' has {frames} frames, but scores"):
            read_davis(tmp_path)
        assert len(read_davis(tmp_path, scored=False)[0].frames) == frames


def break_size(root):
    write_labels(mask(root), np.ones((32, 64), np.uint8))


def break_mode(root):
    Image.new('RGB', (64, 64)).save(mask(root, 0))


def break_labels(root):
    write_labels(mask(root, 0), np.full((64, 64), 255, np.uint8))


def break_image(root):
    (root / 'JPEGImages/480p/val-00/00001.jpg').write_text('no image')


def break_frames(root):
    for file in (root / 'JPEGImages/480p/val-01').iterdir():
        file.unlink()


def break_list(root):
    (root / 'ImageSets/2017/val.txt').write_text('\n')


def break_name(root):
    (root / 'ImageSets/2017/val.txt').write_text('val-00\nbear\n')


def break_first(root):
    mask(root, 0).unlink()


@pytest.mark.parametrize(
    'harm, sentence',
    [
        (break_size, "00001.png' has 64 x 32 pixels and .*00000.jpg' 64 x 64"),
        (break_mode, "00000.png' must hold one label per pixel.* mode RGB"),
        (break_labels, "00000.png', marks no object"),
        (break_image, "00001.jpg' cannot be read: this is no image"),
        (break_frames, "val-01' holds no frames"),
        (break_list, "val.txt' must list each sequence once, at least one"),
        (break_name, "no folder .*bear' of the sequence 'bear'"),
        (break_first, "lacks 1 of 4 annotations, such as .*00000.png'"),
    ],
)
def test_what_is_wrong_is_said_before_the_work_begins(root, harm, sentence):
    harm(root)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        read_davis(root)


def test_missing_roots_and_lists_are_named(root):
    with pytest.raises(FileNotFoundError, match="no folder .*gone' with DAVIS-2017"):
        read_davis(root / 'gone')
    with pytest.raises(FileNotFoundError, match="no list of sequences .*test.txt'"):
        read_davis(root, 'test')
