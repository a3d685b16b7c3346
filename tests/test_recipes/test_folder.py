"""What is known of a folder of images before a run."""

import pytest

from mmbam.recipes.folder import measure
from mmbam.utils.errors import InputError


def test_images_of_sub_folders_are_counted_and_measured(photos):
    found = measure(photos)
    assert (found.count, found.short_side, found.mixed) == (20, 32, True)
    assert found.unreadable == 0


def test_files_that_are_no_images_are_counted_as_unreadable(photos, tmp_path):
    (tmp_path / 'broken.jpg').write_bytes(b'\xff\xd8\xff broken')
    with pytest.raises(InputError, match='None of the 1 images'):
        measure(tmp_path)
    (tmp_path / 'link.png').symlink_to(next(photos.rglob('*.png')))
    assert measure(tmp_path).unreadable == 1


def test_wrong_folders_are_named(tmp_path):
    with pytest.raises(InputError, match='no images .*.jpg, .jpeg'):
        measure(tmp_path)
    with pytest.raises(InputError, match='missing. does not exist'):
        measure(tmp_path / 'missing')
    (tmp_path / 'file').write_text('')
    with pytest.raises(InputError, match='file. is no folder'):
        measure(tmp_path / 'file')
