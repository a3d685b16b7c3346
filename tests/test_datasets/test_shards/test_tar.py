"""Members are listed as Python's tarfile lists them, and damage is passed over."""

import io
import os
import tarfile

import pytest

from mmbam.datasets.shards.tar import Damage, Member, decompressor, members

LONG = 'very/' * 30 + 'long.jpg'


def write(path, names, **kwargs):
    """An archive of Python's own writer; the size of each file is its number."""
    with tarfile.open(path, 'w', **kwargs) as archive:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 400 * number, 0.5  # pax has a header for parts
            archive.addfile(info, io.BytesIO(bytes([number]) * info.size))
    return path


def listed(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return list(members(descriptor))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    'kind', [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_all_formats_are_read_as_tarfile_reads_them(tmp_path, kind):
    names = ['a.jpg', LONG, 'grün.json', 'b\udcfc.jpg', 'x' * 100, 'c.cls']
    path = write(tmp_path / 'a.tar', names, format=kind, errors='surrogateescape')
    with tarfile.open(path) as archive:
        expected = [Member(m.name, m.offset_data, m.size) for m in archive]
    assert [member.name for member in expected] == names
    assert listed(path) == expected


def test_folders_links_and_pipes_are_no_members(tmp_path):
    path = tmp_path / 'a.tar'
    with tarfile.open(path, 'w', format=tarfile.GNU_FORMAT) as archive:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
            info = tarfile.TarInfo('other')
            info.type, info.linkname, info.size = kind, 'y' * 200, 99
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo('a.jpg'))
    assert [member.name for member in listed(path)] == ['a.jpg']


def test_one_archive_may_follow_another(tmp_path):
    first = write(tmp_path / 'a.tar', ['a', 'b']).read_bytes()
    (tmp_path / 'both.tar').write_bytes(first + first)
    names = [member.name for member in listed(tmp_path / 'both.tar')]
    assert names == ['a', 'b', 'a', 'b']


def test_members_behind_a_destroyed_header_are_found(tmp_path):
    path = write(tmp_path / 'a.tar', list('abcd'), format=tarfile.USTAR_FORMAT)
    content = bytearray(path.read_bytes())
    content[1024:1536] = b'\7' * 512  # the header of b is at 512, of c at 1536
    place = content.index(b'c' + bytes(99))
    content[place + 130] ^= 1
    path.write_bytes(content)
    found = listed(path)
    names = [one.name for one in found if isinstance(one, Member)]
    assert names == ['a', 'b', 'd']
    (damage,) = [one for one in found if isinstance(one, Damage)]
    # c has 800 bytes, which fill two blocks behind its header.
    assert damage == Damage(place, 1536)


def test_an_archive_that_is_cut_off_lists_its_last_member(tmp_path):
    path = write(tmp_path / 'a.tar', list('abc'), format=tarfile.USTAR_FORMAT)
    place = listed(path)[-1].offset
    os.truncate(path, place + 100)
    assert listed(path)[-1] == Member('c', place, 800)
    os.truncate(path, place - 100)  # within its header
    assert [type(one) for one in listed(path)] == [Member, Member, Damage]


def test_what_is_no_archive_has_no_members(tmp_path):
    path = tmp_path / 'a.tar'
    for content, damage in ((b'', []), (bytes(9999), []), (b'\xff' * 1000, [1024])):
        path.write_bytes(content)
        assert [one.size for one in listed(path)] == damage


@pytest.mark.parametrize('kind, program', [('gz', 'gunzip'), ('bz2', 'bunzip2')])
def test_compressed_archives_are_recognised(tmp_path, kind, program):
    with tarfile.open(tmp_path / 'a.tar', f'w:{kind}') as archive:
        archive.addfile(tarfile.TarInfo('a.jpg'))
    assert decompressor(tmp_path / 'a.tar') == program
    assert decompressor(write(tmp_path / 'b.tar', 'a')) is None
