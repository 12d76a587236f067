"""Names, modes and times that are not the usual ones."""
import os

import pytest

import clients
from clients import random_array

X = random_array("float32", (16, 16), 1)


def test_the_errors_are_lines_of_utf8_whatever_names_and_files_hold(mnt):
    with pytest.raises(OSError):
        os.mkdir(bytes(mnt.point) + b"/\xff\xfe")
    with pytest.raises(OSError):
        (mnt.key("a\n2000-01-01T00:00:00 forged\x1b[2J") / "full").write_bytes(b"\x93NUMPY, or not")
    header = b'{"a\\nb\\u001b":{"dtype":"NONE","shape":[],"data_offsets":[0,0]}}'
    with pytest.raises(OSError):
        (mnt.key("w") / "full").write_bytes(len(header).to_bytes(8, "little") + header)
    lines = mnt.errors().splitlines()       # decodes
    assert len(lines) >= 3 and all(line[4] == "-" and "Z " in line[:26] for line in lines), lines
    assert "\x1b" not in mnt.errors()


def test_a_view_that_nobody_may_read_shows_it(mnt, scratch):
    path = mnt.key("w") / "full"
    clients.write_numpy(X, path, scratch)
    os.chmod(path, 0)
    assert os.stat(path).st_mode & 0o7777 == 0
    os.chmod(path, 0o640)
    assert os.stat(path).st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("ns", (-5 * 10**9 - 1, -1, 0, 2**62))
def test_times_before_1970_and_far_away_are_kept(mnt, scratch, ns):
    view = mnt.key("w") / "full"
    clients.write_numpy(X, view, scratch)
    plain = mnt / "plain.txt"
    plain.write_text("x")
    for path in (view, plain, mnt / "w"):
        os.utime(path, ns=(ns, ns))
        assert os.stat(path).st_mtime_ns == ns, path


def test_a_time_beyond_what_is_kept_harms_nothing(mnt, scratch):
    plain = mnt / "plain.txt"
    plain.write_text("x")
    os.utime(plain, (2**40, 2**40))
    os.utime(plain, (-2**40, -2**40))
    assert plain.read_text() == "x"
