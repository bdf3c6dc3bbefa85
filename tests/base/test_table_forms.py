"""One table in each of its forms."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.base.table import GAP, Bar, Cell, Table, number, words

STALLS = Table(
    [
        words("Stall reason", "reason"), number("Cycles", name="cycles"), number("Share", ".1%", name="share"),
        words("", "drawn", leaves=1, has_bars=True), words("A warp waits for", "waits_for"),
    ],
    [
        ("long_scoreboard", 12345, 0.5, Bar(0.5), "a load from global or local memory, or a texture"),
        ("wait", 7, 0.25, Bar(0.25), "a result with a fixed latency"),
        ("", None, None, None, "<b> of a|b_c*"),
    ],
    ("plain", "bad", "faint"),
)  # fmt: skip


def test_text_has_columns_that_fit_their_cells_and_numbers_that_end_in_line() -> None:
    assert STALLS.text(100) == (
        "Stall reason     Cycles  Share                    A warp waits for\n"
        "long_scoreboard  12,345  50.0%  ########          a load from global or local memory, or a texture\n"
        "wait                  7  25.0%  ####              a result with a fixed latency\n"
        "                                                  <b> of a|b_c*\n"
    )
    assert [style for style, _ in STALLS.lines(100)] == ["strong", "plain", "bad", "faint"]
    assert [line for _, line in STALLS.lines(100, indent=2)] == [f"  {line}" for line in STALLS.text(98).splitlines()]


def test_narrow_text_leaves_out_columns_that_may_leave_and_breaks_words_and_heads() -> None:
    assert STALLS.text(60) == (
        "Stall reason     Cycles  Share  A warp waits for\n"
        "long_scoreboard  12,345  50.0%  a load from global or local\n"
        "                                memory, or a texture\n"
        "wait                  7  25.0%  a result with a fixed\n"
        "                                latency\n"
        "                                <b> of a|b_c*\n"
    )
    heads = Table([number("Bank conflicts"), number("Sectors/Request", ",.1f", unit=" each")], [(4, 1234.56)])
    assert heads.text(28) == "       Bank\n  conflicts  Sectors/Request\n          4     1,234.6 each\n"


def test_words_that_are_cut_end_in_three_dots() -> None:
    table = Table([words("Source", cut=(8, 20)), number("Cycles")], [("x = a[i] * b[i] + c[i];", 3)])
    assert table.text(100) == "Source                Cycles\nx = a[i] * b[i] +...       3\n"
    assert table.text(16) == "Source    Cycles\nx = a...       3\n"


def test_notes_are_faint_below_their_row_and_a_name_without_cells_is_one_line() -> None:
    rows = [("a_section_with_a_name_that_is_too_wide_for_it", None), ("  banks", 32), ("  ports", 1)]
    notes = ([], ["all of the counted patterns agree with it"], [])
    table = Table([words("", spills=True), number("")], rows, ("strong", "plain", "plain"), below=notes)
    assert list(table.lines(42)) == [
        ("strong", "a_section_with_a_name_that_is_too_wide_for_it"),
        ("plain", f"  banks{' ' * 33}32"),
        ("faint", "      all of the counted patterns agree"),
        ("faint", "      with it"),
        ("plain", f"  ports{' ' * 34}1"),
    ]


def test_csv_and_json_hold_the_cells_as_they_are_under_the_columns_names() -> None:
    assert STALLS.csv().splitlines()[:2] == [
        "reason,cycles,share,drawn,waits_for",
        'long_scoreboard,12345,0.5,0.5,"a load from global or local memory, or a texture"',
    ]
    assert json.loads(STALLS.json())[1] == {
        "reason": "wait", "cycles": 7, "share": 0.25, "drawn": 0.25, "waits_for": "a result with a fixed latency",
    }  # fmt: skip


def test_records_are_a_table_whose_missing_fields_are_empty() -> None:
    assert Table.of([{"a": 1, "b": "x, y"}, {"a": None, "b": ""}]).csv() == 'a,b\n1,"x, y"\n,\n'
    assert Table.of([{"b": 2}], ("a", "b")).csv() == "a,b\n,2\n"
    assert Table.of([]).csv() == "\n"
    with pytest.raises(ValueError, match="fields without a column: b"):
        Table.of([{"a": 1}, {"b": 2}])


def test_markdown_and_html_escape_all_but_code_and_show_what_text_shows() -> None:
    table = Table([words("line", code=True), words("what"), number("cycles")], [("a_b.cu:3", "<i> a|b_c", 1234)])
    assert table.markdown() == "| line | what | cycles |\n|---|---|---:|\n| `a_b.cu:3` | \\<i> a\\|b\\_c | 1,234 |"
    assert STALLS.markdown().splitlines()[2].startswith("| long\\_scoreboard | 12,345 | 50.0% | 50.0% |")
    assert '<td style="text-align:right">1,234</td>' in table.html()
    assert "&lt;i&gt; a|b_c" in table.html()
    assert "<code>a_b.cu:3</code>" in table.html()
    assert "</span> 50.0%</td>" in STALLS.html()


_WORDS = st.text("ab ,.\"'|<>\n", max_size=40)
_ROWS = st.lists(st.tuples(_WORDS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), _WORDS), max_size=5)


@pytest.mark.slow
@given(_ROWS)
def test_csv_and_json_give_back_the_same_cells(rows: list[tuple[Cell, ...]]) -> None:
    table = Table([words("a"), number("b"), number("c", ".1%"), words("d")], rows)
    names, *read = csv.reader(io.StringIO(table.csv(), newline=""))
    assert names == ["a", "b", "c", "d"]
    assert read == [[str(cell) for cell in row] for row in rows]
    assert [tuple(record.values()) for record in json.loads(table.json())] == rows


@given(_ROWS, st.integers(20, 120))
def test_text_is_as_narrow_as_its_numbers_and_ten_letters_for_each_column_of_words_allow(
    rows: list[tuple[Cell, ...]], width: int
) -> None:
    table = Table([words("a"), number("b"), number("c", ".1%"), words("d")], rows)
    lines = [line for _, line in table.lines(width)]
    assert all(line == line.rstrip() for line in lines)
    numbers = [max((len(table.columns[at].written(row[at])) for row in rows), default=1) for at in (1, 2)]
    if sum(numbers) + 2 * 10 + 3 * GAP <= width:
        assert max(map(len, lines)) <= width
    together = "\n".join(lines)
    for row in rows:
        for at in (1, 2):
            assert table.columns[at].written(row[at]) in together
