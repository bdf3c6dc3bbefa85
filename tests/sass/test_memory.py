import numpy as np
import pytest

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, SHARED_WINDOW, Memory


def memory(shared_bytes=64, shared_base=0, local_bytes=20) -> Memory:
    return Memory(shared_bytes, shared_base, local_bytes, Lanes(64))


def test_buffers_get_addresses_that_follow_from_their_sizes_alone():
    sizes = (1040, 1, 0, 5 << 20, 16)
    first, second = memory(), memory()
    given = [first.add_buffer(f"argument {i}", np.zeros(n, np.uint8)) for i, n in enumerate(sizes)]
    assert given == [second.add_buffer("other", np.ones(n, np.uint8)) for n in sizes]
    assert given[0] == 0x7F0000000000
    assert all(address % 512 == 0 for address in given)


def test_between_two_buffers_lie_bytes_that_belong_to_none():
    m = memory()
    sizes = (1 << 21, 3, (1 << 22) - 1, 8)
    given = [m.add_buffer("b", np.zeros(n, np.uint8)) for n in sizes]
    for address, size, following in zip(given, sizes, given[1:], strict=False):
        assert address + size + 4096 <= following


def test_a_buffer_is_the_array_itself_and_not_a_copy():
    m = memory()
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    m.add_buffer("argument 0", array)
    m.buffers[0].views[4][5] = np.float32(-2.5).view(np.uint32)
    assert array[1, 1] == -2.5


def test_arrays_of_any_shape_and_number_type_are_taken():
    m = memory()
    for array in (np.zeros((), np.int64), np.zeros((0, 4)), np.zeros((2, 3, 5), np.float16), np.ones(7, np.bool_)):
        m.add_buffer("argument", array)
        assert m.buffers[-1].bytes == array.nbytes


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros((4, 4))[:, ::2], "not C-contiguous"),
        (np.zeros((4, 5)).T, "not C-contiguous"),
        (np.broadcast_to(np.zeros(1), (4,)), "not C-contiguous"),
        (np.array([None, 3]), "Python objects"),
        ([1, 2, 3], "a list"),
    ],
)
def test_an_array_that_cannot_be_written_in_place_is_refused(array, found):
    with pytest.raises(GpuemuError, match=found) as caught:
        memory().add_buffer("argument 3", array)
    assert caught.value.problems[0].field == "argument 3"


def test_a_read_only_array_is_refused():
    array = np.zeros(4)
    array.flags.writeable = False
    with pytest.raises(GpuemuError, match="read-only"):
        memory().add_buffer("argument 0", array)


def test_a_new_cta_finds_shared_memory_unwritten_and_local_memory_zero():
    m = memory()
    m.shared[1][:] = 7
    m.written[1][:] = 255
    m.local[1][:] = 9
    for base in range(64):
        m.note_written((base, 4, (b"", b"")))
    assert m.all_written
    m.new_cta()
    assert not m.all_written
    assert not m.places_written
    assert not m.shared[1].any()
    assert not m.written[1].any()
    assert not m.local[1].any()


def test_a_cta_without_shared_memory_has_nothing_unwritten():
    m = memory(shared_bytes=0)
    assert m.all_written
    m.new_cta()
    assert m.all_written


def test_the_windows_suit_the_ways_in_which_code_forms_generic_addresses():
    assert SHARED_WINDOW % (1 << 32) == 0  # sm_90 puts the high word over a shared address
    assert SHARED_WINDOW % (1 << 24) == 0  # earlier code masks the low 24 bits out
    assert LOCAL_WINDOW < SHARED_WINDOW < 1 << 47
