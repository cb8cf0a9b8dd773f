"""Translations: a text, and the languages of it."""

from collections.abc import Mapping

from demo.skills.case import Draw
from demo.skills.catalogue.kinds import Kind, Parameter, Request
from demo.skills.catalogue.linked.making import POLITE, kind_of, names_of
from demo.skills.phrases import worded

_LANGUAGES: Mapping[str, str] = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian",
    "sv": "Swedish", "da": "Danish", "fi": "Finnish", "cs": "Czech", "tr": "Turkish",
    "ru": "Russian", "el": "Greek", "zh": "Chinese", "ko": "Korean", "ar": "Arabic",
    "he": "Hebrew", "hi": "Hindi", "uk": "Ukrainian", "ro": "Romanian", "hu": "Hungarian",
    "vi": "Vietnamese", "th": "Thai", "no": "Norwegian",
}  # fmt: skip
_INTO = (
    f"{POLITE}[translate|put|turn|render|bring|convert] {{x}} [into|to] {{t}}",
    "[how do you say|what is|how would they say] {x} in {t}",
    "{x} in {t}, please",
    "into {t}: {x}",
    "[to|in] {t}: {x}",
    "[I need|I want|give me|write] the {t} version of {x}",
    "[say|repeat] {x} so that people who speak {t} understand",
    "{t} for {x}",
    "what does {x} [mean|say] in {t}",
    "{x} -> {t}",
    "my guests only speak {t}, so tell them {x}",
)
_OUT_OF = ("from {s} [in|]to {t}", "out of {s} into {t}", "into {t} from {s}", "({s} to {t})",
           "{s} -> {t}", "into {t}. It is {s}", "into {t}, the text is in {s}")  # fmt: skip


def translation(draw: Draw) -> Kind:
    """A text that is wanted in another language."""
    text, target, source = names_of(
        draw,
        "text|content|input|passage|phrase|message|body|source_text|words|string|q|quote",
        "target|to|language|into|target_language|target_lang|lang|output_language|to_lang",
        "source|from|source_language|source_lang|from_language|origin|input_language",
    )
    codes = draw.chance(0.5)
    about = draw.pick(("Language code", "ISO 639-1 code", "Two letters of the language",
                       "Code of the language, e.g. la") if codes else
                      ("", "", "Name of the language", "The language, in English"))  # fmt: skip
    parameters = [
        Parameter((text,), "passage"),
        Parameter((target,), "word", about=about),
        Parameter((source,), "word", draw.chance(0.85), about=about),
    ]
    if draw.chance(0.4):
        del parameters[2]

    def make() -> Request:
        said = draw.rng.sample(list(_LANGUAGES.items()), 2)
        given = [(name, code if codes else word, word)
                 for name, (code, word) in zip((target, source), said, strict=True)]  # fmt: skip
        both = len(parameters) > 2 and (not parameters[2].optional or draw.chance(0.35))
        if both:
            form = f"{worded(draw, POLITE)}translate {{x}} {worded(draw, draw.pick(_OUT_OF))}"
        else:
            form, given = worded(draw, draw.pick(_INTO)), given[:1]
        for mark, name in (("x", text), ("t", target), ("s", source)):
            form = form.replace(f"{{{mark}}}", f"{{{name}}}")
        return Request(form, given=tuple(given))

    verbs = "translate|render|convert|localize|say|interpret"
    things = ("text", "phrase", "sentence", "language", "message", "words", "passage")
    return kind_of(draw, verbs, things, parameters, make)
