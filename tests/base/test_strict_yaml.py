import importlib.util
import sys
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from refusals import brief

from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError


def refusal(text: str) -> list[str]:
    with pytest.raises(GpuemuError) as caught:
        strict_yaml.parse(text, "t.yaml")
    return brief(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("FALSE", False),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("off", "off"),
        ("y", "y"),
        ("2024-05-06", "2024-05-06"),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("0x40", 64),
        ("-0x10", -16),
        ("-3", -3),
        ("0", 0),
        ("010", "010"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("2.5", 2.5),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("1.2.3", "1.2.3"),
        ("m16n8k16.f32.f16", "m16n8k16.f32.f16"),
        ("~", None),
        ("null", None),
        ("'true'", "true"),
        ('"32"', "32"),
        ("=", "="),
        ("!!str 32", "32"),
        ("[1, two, [3]]", [1, "two", [3]]),
        ("{1: a, b: {c: 2}}", {1: "a", "b": {"c": 2}}),
        ("", None),
    ],
)
def test_plain_words_become_only_the_values_that_are_promised(text, value):
    read = strict_yaml.parse(text, "t.yaml").value
    assert read == value
    assert type(read) is type(value)


def test_every_duplicate_key_is_told_with_the_line_of_the_first():
    assert refusal("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n") == [
        "t.yaml:4: b.c: the key appears twice",
        "t.yaml:5: a: the key appears twice",
    ]


def test_keys_that_are_equal_as_numbers_are_duplicates():
    assert refusal("16: a\n0x10: b\n") == ["t.yaml:2: [16]: the key appears twice"]


def test_aliases_are_refused_each_on_its_line():
    assert refusal("a: &x {b: 1}\nc: *x\nd: [*x]\n") == [
        "t.yaml:2: the alias *x",
        "t.yaml:3: the alias *x",
    ]


def test_a_list_that_contains_itself_is_refused():
    assert refusal("&x [*x]") == ["t.yaml:1: the alias *x"]


def test_a_bomb_of_aliases_is_refused_at_once():
    lines = ["a0: &a0 [1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    start = time.perf_counter()
    assert len(refusal("\n".join(lines))) == 9 * 29
    assert time.perf_counter() - start < 5


def test_a_merge_key_is_refused_and_a_quoted_one_is_a_word():
    assert refusal("a:\n  <<: {b: 1}\n") == ["t.yaml:2: a: a merge key"]
    assert strict_yaml.parse("'<<': 1", "t.yaml").value == {"<<": 1}


def test_tags_are_refused_all_at_once():
    assert refusal("a: !mine 3\nb: !!python/name:os.system\nc: !!int x\nd: !!set {e}\nf: !seq [1]\n") == [
        "t.yaml:1: a: the tag !mine",
        "t.yaml:2: b: the tag !!python/name:os.system",
        "t.yaml:3: c: the tag !!int",
        "t.yaml:4: d: the tag !!set",
        "t.yaml:5: f: the tag !seq",
    ]


def test_keys_other_than_words_and_whole_numbers_are_refused():
    assert refusal("true: 1\n~: 2\n1.5: 3\n? [4]\n: 5\n") == [
        "t.yaml:1: true as a key",
        "t.yaml:2: nothing as a key",
        "t.yaml:3: 1.5 as a key",
        "t.yaml:4: a list or mapping as a key",
    ]


def test_a_second_document_is_refused():
    assert refusal("a: 1\n---\nb: 2\n") == ["t.yaml:2: a second document begins here"]


def test_a_syntax_error_names_its_line():
    assert refusal("a: 1\nb: c: d\n") == ["t.yaml:2: invalid YAML (mapping values are not allowed in this context)"]


def test_a_tab_in_the_indentation_is_named():
    assert refusal("a:\n\tb: 1\n") == ["t.yaml:2: a tab in the indentation"]


def test_a_control_character_names_its_line_after_non_ascii_text():
    assert refusal("a: é\nb: ü\nc: \x07\n") == ["t.yaml:3: a control character"]


def test_half_a_surrogate_pair_is_refused():
    assert refusal("a: 1\nb: \udcff") == ["t.yaml:2: half a character"]


def test_an_endless_number_is_refused():
    assert refusal("a: " + "9" * 5000) == ["t.yaml:1: a: a number of 5000 digits"]


DEEP = [
    "[" * 101 + "]" * 101,
    "[" * 150 + "]" * 150,
    "[" * 200_000,
    "{a: " * 200_000,
    "- " * 3000,
    "? " * 30_000,
    "\n".join(" " * i + "a:" for i in range(500)),
    "\n".join(" " * i + "- - -" for i in range(0, 500, 5)),
]


@pytest.mark.parametrize("text", DEEP)
def test_values_nested_too_deeply_are_refused_and_do_not_crash(text):
    (line,) = refusal(text)
    assert line.endswith("values nested too deeply")


def test_a_hundred_levels_are_read():
    value = strict_yaml.parse("[" * 100 + "1" + "]" * 100, "t.yaml").value
    for _ in range(100):
        (value,) = value
    assert value == 1


def test_too_deep_is_said_whatever_the_scanner_itself_says(monkeypatch):
    # PyYAML 6.0.4 gives up at a depth of its own, while it looks ahead; another may do so in other words.
    def gives_up(loader):
        mark = yaml.error.Mark("t.yaml", 500, 0, 500, None, None)
        if "]" in loader.text:
            raise yaml.scanner.ScannerError("in a list", mark, "enough", mark)
        return compose(loader)

    class Loader(strict_yaml._Loader):
        def __init__(self, text):
            super().__init__(text)
            self.text = text

        get_single_node = gives_up

    compose = strict_yaml._Loader.get_single_node
    monkeypatch.setattr(strict_yaml, "_Loader", Loader)
    assert refusal("[" * 500 + "]" * 500) == ["t.yaml:1: values nested too deeply"]
    assert refusal("[1, 2]") == ["t.yaml:1: invalid YAML (enough)"]


def test_problems_come_in_the_order_of_the_file():
    lines = refusal("a: !x 1\nb: &c 1\nd: *c\ne: 1\ne: 2\n")
    assert [line.split(":")[1] for line in lines] == ["1", "3", "5"]


TEXT = """\
# a comment
shared_memory:
  banks: 32
  list: [1,
    2]
  text: |

    first
    second
  folded: >
    some
    words
  plain: words
items:
  - one
  - two: 2
"""


def test_every_key_item_and_value_knows_its_line():
    document = strict_yaml.parse(TEXT, "t.yaml")
    assert document.line() == 2
    assert document.line(("shared_memory",)) == 2
    assert document.line(("shared_memory", "banks")) == 3
    assert document.line(("shared_memory", "list", 1)) == 5
    assert document.line(("items", 1)) == 16
    assert document.line(("items", 1, "two")) == 16


def test_a_missing_key_has_the_line_of_what_should_hold_it():
    document = strict_yaml.parse(TEXT, "t.yaml")
    assert document.line(("shared_memory", "bankz")) == 2
    assert document.line(("items", 7)) == 14
    assert document.line(("items", "0")) == 14
    assert document.line(("nothing", "at", "all")) == 2
    assert strict_yaml.parse("", "t.yaml").line(("a",)) == 1


def test_the_lines_of_a_block_of_text_can_be_found_again():
    document = strict_yaml.parse(TEXT, "t.yaml")
    path = ("shared_memory", "text")
    text = document.value["shared_memory"]["text"]
    assert text == "\nfirst\nsecond\n"
    for index, line in enumerate(text.splitlines()):
        assert TEXT.splitlines()[document.text_line(path, index) - 1].strip() == line
    assert document.text_line(("shared_memory", "folded"), 1) == 11
    assert document.text_line(("shared_memory", "plain"), 3) == 13


def test_a_problem_names_file_line_and_dotted_field():
    document = strict_yaml.parse(TEXT, "t.yaml")
    problem = document.problem(("items", 1, "two"), "2", "expected 3")
    assert str(problem) == "t.yaml:16: items[1].two: found 2, expected 3."


def test_a_file_is_called_as_it_was_given_or_as_the_caller_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("a: 1", encoding="utf-8")
    assert strict_yaml.load("a.yaml").name == "a.yaml"
    assert strict_yaml.load(tmp_path / "a.yaml", "mine").name == "mine"
    with pytest.raises(GpuemuError, match=r"^b.yaml: no such file"):
        strict_yaml.load("b.yaml")
    with pytest.raises(GpuemuError, match="a file that cannot be read"):
        strict_yaml.load(tmp_path)
    with pytest.raises(GpuemuError, match="a file that cannot be read"):
        strict_yaml.load("a\0b")


def test_a_byte_order_mark_is_skipped_and_other_encodings_are_refused(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert strict_yaml.load(path).value == {"a": 1}
    path.write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(GpuemuError) as caught:
        strict_yaml.load(path, "a.yaml")
    assert "\n".join(brief(caught.value)) == "a.yaml:2: the byte 0xe9"


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")
def test_a_long_block_of_text_loads_at_the_speed_of_the_c_parser():
    text = "a: 1\ntext: |\n" + "  /*0040*/ B0-----:R-:W1:-:S02 LDS.128 R4, [R2+0x10] ; [x] - {y}\n" * 100_000
    start = time.perf_counter()
    document = strict_yaml.parse(text, "t.yaml")
    took = time.perf_counter() - start
    assert len(document.value["text"].splitlines()) == 100_000
    assert took < 1, "Python's scanner would take several seconds"


def without_libyaml(monkeypatch):
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    spec = importlib.util.spec_from_file_location("strict_yaml_in_python", strict_yaml.__file__)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_without_libyaml_the_same_is_read_and_refused(monkeypatch):
    module = without_libyaml(monkeypatch)
    document = module.parse(TEXT, "t.yaml")
    assert document.value == strict_yaml.parse(TEXT, "t.yaml").value
    assert document.text_line(("shared_memory", "text"), 2) == 9
    for text in ("a: 1\na: 2", "a: é\nb: \x07", "<<: 1", "a: &b 1\nc: *b", "a: !x 1", "a:\n\tb: 1"):
        with pytest.raises(GpuemuError) as caught:
            module.parse(text, "t.yaml")
        assert brief(caught.value) == refusal(text)
    for text in DEEP:
        with pytest.raises(GpuemuError, match="values nested too deeply"):
            module.parse(text, "t.yaml")


words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(trees)
def test_what_pyyaml_writes_in_quotes_is_read_back_unchanged(value):
    text = yaml.safe_dump(value, default_style='"', allow_unicode=True)
    # With this style PyYAML quotes and tags everything but texts, as !!int "1".
    assert strict_yaml.parse(text, "t.yaml").value == value


@given(st.text(max_size=40) | st.text("ab1:-[]{},#&*!|>?'\"%@\n\t é\x07", max_size=40))
def test_any_text_is_read_as_pyyaml_reads_it_or_refused_with_problems(text):
    """What is no YAML is refused; what is read has the shape and the texts that PyYAML finds."""
    problems, document = (), None
    try:
        document = strict_yaml.parse(text, "t.yaml")
    except GpuemuError as error:
        problems = error.problems
    assert all(p.file == "t.yaml" and p.found and p.right for p in problems)
    if document is None:
        assert problems
    else:
        assert same(document.value, yaml.load(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader)))


def same(value, text):
    """Whether a value is what its text, or the texts in a list or mapping, stand for."""
    if isinstance(value, dict):
        return len(value) == len(text) and all(
            same(ours, its)
            for pair in zip(value.items(), text.items(), strict=True)
            for ours, its in zip(*pair, strict=True)
        )
    if isinstance(value, list):
        return len(value) == len(text) and all(map(same, value, text))
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    if isinstance(value, int):
        return int(text, 0) == value
    if isinstance(value, float):
        return float(text.replace(".inf", "inf").replace(".nan", "nan")) == value
    return text in (None, "", "~", "null", "Null", "NULL") if value is None else value == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing"),
        (True, "true"),
        (False, "false"),
        ("32", "the text '32'"),
        (32.5, "32.5"),
        ([1, 2], "the list [1, 2]"),
        (list(range(50)), "a list of 50 items"),
        ({"a": 1}, "a mapping"),
        (b"x", "a value of type bytes"),
    ],
)
def test_values_are_described_in_words(value, words):
    assert strict_yaml.describe(value) == words


def test_a_long_text_is_described_by_its_start():
    assert strict_yaml.describe("x" * 100) == f"the text '{'x' * 57}'..."
