import pytest

from server.summaries.screening import MOST_COPIED, MOST_QUOTED, finding
from server.summaries.sources import Sources

RULE = "one two three four five six seven eight nine ten eleven twelve"
KEPT = "The model compares both dates and finds that the second is earlier, since x<y and 3 < 4."


def found(text: str, *, sources: str = "", reasoning: str = "", never: tuple[str, ...] = ()) -> str:
    return finding(text, reasoning, Sources([sources]), never) or ""


def test_an_honest_summary_passes() -> None:
    assert found(KEPT, sources=RULE, reasoning=RULE, never=("slur",)) == ""
    assert found("It calls `a_b` with **2 * 3**, 5 ~ 6 & more.", sources="ab", never=("ab",)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "It checks `nums[i]`: if it is odd, it goes on.",
        "The array `a[i]` (sorted) is read.",
        "It reads `data`: a list.",
        "**Parsing data**: it reads.",
        r"Since \[x^2\] \(positive\) holds.",
        "**[1]** (the first)",
        r"It is no link: [x]\(y).",
        "It is no tag: &lt;a href=x&gt;.",
        "It reads \u845b\U000e0100\u57ce.",
    ],
)
def test_what_markdown_shows_as_a_text_passes(text: str) -> None:
    assert found(text) == ""


def test_runs_of_instructions_are_found_from_eight_words_on() -> None:
    words = RULE.split()
    assert found(" ".join(words[2 : 2 + MOST_COPIED]), sources=RULE) == ""
    assert found(" ".join(words[2 : 3 + MOST_COPIED]), sources=RULE) == "copied"


def test_runs_of_the_reasoning_are_found_from_sixteen_words_on() -> None:
    words = [f"w{number}" for number in range(30)]
    reasoning = " ".join(words)
    assert found(" ".join(words[2 : 2 + MOST_QUOTED]), reasoning=reasoning) == ""
    assert found(" ".join(words[2 : 3 + MOST_QUOTED]), reasoning=reasoning) == "quoted"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("It writes <|end|> now.", "control"),
        ("It writes ＜|end now.", "control"),
        ("It rings \x07 now.", "control"),
        ("It reads \u202eterces\u202c now.", "control"),
        ("It hides \U000e0073\U000e0065\U000e0063 now.", "control"),
        ("It hides \u845b\U000e0100\U000e0101 now.", "control"),
        ("It hides a\U000e0100 now.", "control"),
        ("It hides \U000e01f0\U000e0fff now.", "control"),
        ("See https://example.com now.", "link"),
        ("See [this](x) now.", "link"),
        ("See ![](x) now.", "link"),
        ("See <IMG src=x> now.", "link"),
        ("See www.example.com now.", "link"),
        ("See <javascript:alert(1)> now.", "link"),
        ("See <MAILTO:eve@example.com?body=x> now.", "link"),
        ("See <eve@example.com> now.", "link"),
        ("See <!-- now.", "link"),
        ("See <![CDATA[x now.", "link"),
        ("See <!DOCTYPE html> now.", "link"),
        ("See <?xml x?> now.", "link"),
        ("It uses sk-abcdefgh1 now.", "secret"),
        ("It uses sk_live_abcdefgh1 now.", "secret"),
        ("It uses AKIAABCDEFGHIJKL now.", "secret"),
        ("It uses -----BEGIN RSA PRIVATE KEY now.", "secret"),
        ("It uses a-eyJ-eyJhbGciOiJIUzI1NiJ9.e now.", "secret"),
        ("It ends < / script now.", "link"),
    ],
)
def test_what_no_summary_contains_is_found(text: str, reason: str) -> None:
    assert found(text) == reason


@pytest.mark.parametrize("text", ["It says xeyjabcdefghijk. Yes.", "It says eyjabc. Yes."])
def test_what_only_looks_like_the_beginning_of_a_key_passes(text: str) -> None:
    assert found(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "eyjaaaaaaaaa-" * 100_000,
        f"x <{' ' * 1_000_000}",
        "<ab:" * 100_000,
        "<ab:" + "x" * 1_000_000,
        "<x@" * 300_000,
        "a_" * 500_000,
        "_" * 1_000_000,
        "&" * 1_000_000,
        "\\" * 1_000_000,
    ],
)
def test_no_pattern_takes_quadratic_time(text: str) -> None:
    # With patterns that do, each of these takes hours.
    assert found(text) == ""


@pytest.mark.parametrize(
    "tag",
    [
        "<table>",
        "</TABLE>",
        "<Button disabled>",
        "<h1/>",
        "<br />",
        "<details open>",
        "<b>",
        "</i>",
        "<p style=x>",
        "<b/class=x>",
        "<own-element onclick=x>",
        "<x/onclick = x",
        "＜table＞",
        "a <source> b",
        "List<Table>",
        "a<details>",
        "List<Map hidden>",
        "List<Map/>",
        "home</map>",
        "-<map>",
        "a<b style=x>",
        "a<map onclick=x>",
        "a<s><s>",
    ],
)
def test_tags_are_found(tag: str) -> None:
    assert found(f"It has {tag} here.") == "link"


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "a<b and c>d",
        "i<n, and n>0",
        "x<time",
        "x <timer> y",
        "< table >",
        "if x<y and z=3, then y>2",
        "List<int>",
        "Map<String, List<T>>",
        "List<Map>",
        "Vec<Option>",
        "Vec<Vec<Data>>",
        "Promise<Data>",
        "Result<Output>",
        "Box<S>",
        "x<q>y",
        "std::vector<double>",
        "Vec<std::string>",
        "List<?> and Class<? extends T>",
        "sk_learn_tests and pk_live",
        "the path /users/<id>",
        "a <- b -> c",
    ],
)
def test_comparisons_and_type_parameters_pass(text: str) -> None:
    assert found(f"It finds {text} here.") == ""


@pytest.mark.parametrize("text", ["code 4FE1\u200b-99AA.", "“4fe1-99aa”", "CODE=4fe1-99aa"])
def test_terms_of_the_sources_are_found(text: str) -> None:
    assert found(f"It has {text}", sources="the code=4fe1-99aa!") == "secret"
    assert found(f"It has {text}", sources="another") == ""


@pytest.mark.parametrize("invisible", "\u200b\u3164\u115f\uffa0\ufff9\u180b\u2064\ufe01")
def test_no_invisible_character_hides_a_text(invisible: str) -> None:
    text = f"It knows a4f{invisible}e199ae{invisible}\u0301{invisible}c."
    assert found(text, never=("a4fe199aéc",)) == "policy"
    assert found(text, sources=f"It is {RULE}: a4fe199aéc is {RULE}.") == "secret"


@pytest.mark.parametrize(
    "text", ["a4f*e19*9aec", "a4f**e1**99aec", "a4f`e199`aec", "a4f~~e1~~99aec", "a4f&#101;199aec"]
)
def test_no_markdown_hides_a_text(text: str) -> None:
    assert found(f"It knows {text}.", never=("a4fe199aec",)) == "policy"
    assert found(f"It knows {text}.", sources=f"It is {RULE}: a4fe199aec is {RULE}.") == "secret"


@pytest.mark.parametrize("mark", ["_", "**", "~~", "`", "***_"])
def test_words_are_found_whatever_emphasis_each_has(mark: str) -> None:
    text = " ".join(f"{mark}{word}{mark[::-1]}" for word in RULE.split())
    assert found(text, sources=f"First {RULE} last") == "copied"
    assert found(text, reasoning=f"First {RULE} {RULE}") == ""
    assert found(f"{text} {text}", reasoning=f"First {RULE} {RULE}") == "quoted"
    assert found(f"A {mark}grue{mark[::-1]} hunt.", never=("grue hunt",)) == "policy"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("It reads &#x202e;terces.", "control"),
        ("It writes &lt;&#124;end.", "control"),
        ("See https:&#47;/example.com now.", "link"),
        (r"See https:\/\/example.com now.", "link"),
        (r"It uses sk\-abcdefgh1 now.", "secret"),
        (r"It uses ghp\_abcdefgh1 now.", "secret"),
        ("It uses ghp_**abcdefgh1** now.", "secret"),
        ("It uses **ghp_**abcdefgh1 now.", "secret"),
        ("It uses ghp_`abcdefgh1` now.", "secret"),
        ("It uses ghp&#95;abcdefgh1 now.", "secret"),
        ("It uses ghp&lowbar;abcdefgh1 now.", "secret"),
    ],
)
def test_what_no_summary_contains_is_found_behind_escapes(text: str, reason: str) -> None:
    assert found(text) == reason


def test_texts_with_underscores_are_found_behind_escapes() -> None:
    assert found(r"A grue\_hunt.", never=("grue_hunt",)) == "policy"
    assert found(r"A user\_name\_4711x.", sources="It is user_name_4711x.") == "secret"
    assert found("A grue_**hunt**.", never=("grue_hunt",)) == "policy"
    assert found(r"A *not emphasised\*.", never=("not emphasised*",)) == "policy"


def test_a_reference_to_no_character_passes() -> None:
    assert found(f"It reads &#{'9' * 5000}; and &nothing; and &#9999999;.") == ""


@pytest.mark.parametrize("text", ["It is a Zork!", "It zorks.", "A  grue-\nhunt begins."])
def test_texts_of_the_policy_are_found(text: str) -> None:
    assert found(text, never=("zork", "grue hunt")) == "policy"


def test_a_text_of_the_policy_without_words_is_found_as_it_is() -> None:
    assert found("It is *** here.", never=("***",)) == "policy"
    assert found("It is here.", never=("***",)) == ""
    assert found("\u2026", never=("+++",)) == ""
