"""Every readable image of a folder is found, nothing else, and the log says so."""

import os

import cv2
import numpy as np
import pytest
from PIL import Image

from mmbam.datasets.finding import SUFFIXES, find_files, find_images, list_images
from mmbam.datasets.transforms import LoadImage
from mmbam.utils.errors import InputError
from mmbam.utils.files import printable

NOISE = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
# Each written by another library than the ones of this project.
BY_OPENCV = {'.pgm': NOISE[..., 0], '.pbm': (NOISE[..., 0] > 99) * np.uint8(255)}
PIL_FORMATS = {'.jpe': 'JPEG', '.jfif': 'JPEG', '.pnm': 'PPM', '.jp2': 'JPEG2000'}


@pytest.fixture
def every_kind(tmp_path):
    for suffix in SUFFIXES:
        path = tmp_path / f'image{suffix.upper()}'
        if suffix in BY_OPENCV:
            cv2.imwrite(str(tmp_path / f'a{suffix}'), BY_OPENCV[suffix])
            os.rename(tmp_path / f'a{suffix}', path)
        elif suffix in ('.npy', '.npz'):
            (np.save if suffix == '.npy' else np.savez)(tmp_path / f'a{suffix}', NOISE)
            os.rename(tmp_path / f'a{suffix}', path)
        elif suffix == '.dcm':  # read in test_bands.py
            path.touch()
        else:
            Image.fromarray(NOISE).save(path, PIL_FORMATS.get(suffix))
    return tmp_path


def test_every_ending_that_counts_is_found_and_read(every_kind):
    names = find_files(every_kind).names
    assert {os.path.splitext(name)[1].lower() for name in names} == set(SUFFIXES)
    load = LoadImage(max_errors=0)
    for name in names:
        if name.endswith('.DCM'):
            continue
        assert load(dict(img_path=str(every_kind / name)))['img'].shape == NOISE.shape


def fill(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_hidden_and_other_files_are_ignored_and_counted(tmp_path, caplog):
    fill(tmp_path, 'b/z.JPG', 'b.png', 'b/c/a.webp', '.thumbnails/1.jpg', 'b/._z.jpg')
    fill(tmp_path, 'notes.txt', 'b/more.TXT', 'README', 'photo.heic')
    found = find_files(tmp_path)
    assert found.names == ['b.png', 'b/c/a.webp', 'b/z.JPG'], 'sorted as text'
    assert str(found) == (
        f'3 images in {tmp_path} (ignored: 2 .txt, 1 without ending, 1 .heic, 2 hidden)'
    )
    fill(tmp_path / 'plain', 'a.gif')
    assert str(find_files(tmp_path / 'plain')) == f'1 image in {tmp_path}/plain'


def test_many_kinds_of_other_files_stay_one_line(tmp_path):
    fill(tmp_path, 'a.jpg', *(f'{i}.x{i}' for i in range(9)), 'more.x8')
    assert find_files(tmp_path).ignored == (
        ' (ignored: 2 .x8, 1 .x0, 1 .x1, 1 .x2, 1 .x3, 4 others)'
    )


def test_an_empty_result_names_the_endings_and_what_is_there(tmp_path):
    fill(tmp_path, 'a.heic', '.jpg')
    with pytest.raises(InputError) as error:
        list_images(tmp_path)
    assert str(error.value) == (
        f'The folder {str(tmp_path)!r} holds no images ({", ".join(SUFFIXES)}) '
        '(ignored: 1 .heic, 1 hidden).'
    )
    with pytest.raises(InputError, match='no image or folder'):
        find_images(tmp_path / 'gone')


def test_links_are_followed_but_not_in_circles(tmp_path):
    fill(tmp_path / 'other', 'a.jpg')
    fill(tmp_path / 'root', 'b.jpg')
    (tmp_path / 'root/linked').symlink_to(tmp_path / 'other')
    (tmp_path / 'root/again').symlink_to(tmp_path / 'other')
    (tmp_path / 'other/up').symlink_to(tmp_path / 'root')
    (tmp_path / 'root/self.jpg').symlink_to('self.jpg')
    (tmp_path / 'root/gone.jpg').symlink_to('nothing')
    found = find_files(tmp_path / 'root')
    assert found.names == ['again/a.jpg', 'b.jpg', 'linked/a.jpg']
    assert {os.path.basename(path) for path in found.irregular} == {
        'self.jpg',
        'gone.jpg',
    }


def test_folders_that_may_not_be_read_are_passed_over(tmp_path, monkeypatch):
    fill(tmp_path, 'a.jpg', 'closed/b.jpg')
    scandir = os.scandir

    def refuse(path):
        if 'closed' in path:
            raise PermissionError(path)
        return scandir(path)

    monkeypatch.setattr(os, 'scandir', refuse)
    found = find_files(tmp_path)
    assert found.names == ['a.jpg']
    assert found.closed == [f'{tmp_path}/closed/']


def test_any_bytes_may_be_in_a_name(tmp_path, capfd):
    content = cv2.imencode('.png', NOISE)[1].tobytes()
    folder = os.fsencode(tmp_path) + b'/G\xe4rten im M\xc3\xa4rz'
    os.mkdir(folder)
    for name in (b'gr\xfcn.png', 'grün 1.png'.encode()):
        with open(folder + b'/' + name, 'wb') as file:
            file.write(content)
    with open(folder + b'/b\xf6se.png', 'wb') as file:
        file.write(b'no image')
    names = list_images(tmp_path)
    assert len(names) == 3
    load = LoadImage(max_errors=0.5)
    loaded = [load(dict(img_path=str(tmp_path / name))) for name in names]
    assert [one is not None for one in loaded] == [False, True, True]
    # Whatever the terminal's and the log file's encoding.
    shown = printable(names[0])
    assert shown == 'G\\xe4rten im März/b\\xf6se.png'
    load.errors.max_errors = 0
    with pytest.raises(InputError) as error:
        load(dict(img_path=str(tmp_path / names[0])))
    assert shown in str(error.value)
    str(error.value).encode()
