"""Tables of text: columns that fit their cells, and comma-separated values."""

from gpuemu.base import tables


def test_a_column_is_as_wide_as_its_widest_cell_and_numbers_end_in_line():
    rows = [("name", "cycles", "why"), ("v2", "856", "latency"), ("v5_swizzle", "8", "")]
    assert tables.columns(rows, (0, 2)) == [
        "name        cycles  why",
        "v2             856  latency",
        "v5_swizzle       8",
    ]


def test_values_that_hold_commas_are_quoted_and_missing_ones_are_empty():
    assert tables.as_csv([{"a": 1, "b": "x, y"}, {"a": None, "b": ""}]) == 'a,b\n1,"x, y"\n,\n'
    assert tables.as_csv([{"b": 2}], ("a", "b")) == "a,b\n,2\n"
    assert tables.as_csv([]) == "\n"
