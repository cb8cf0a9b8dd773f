"""Wordings of corrections, repetitions and requests of two things, composed for training.

The evaluation has wordings of its own (`demo.skills.dialogue`), which none of these are.
"""

_LEAD = (
    "[no|no, no|sorry|oops|hm|ah|actually|hold on|my mistake|correction|stop|pardon|I was wrong|"
    "well|on second thought|I changed my mind|that was wrong|not quite|excuse me|one moment|oh|oh "
    "no|uh|rather|hang on|a moment|forgive me|that is not right|nope|please|hey|listen|just a "
    "second|let me correct that|I made a mistake|my fault|not like that|almost|so sorry|better]"
)
_DOT = "[||||.|!|, please|, thanks| please]"
_SET = "[set|change|switch|put|alter|correct|update|turn|move|fix|adjust|edit|modify]"
_SAME = (
    "[the same|the same thing|everything the same|do the same|repeat it|once more|same again|do it|"
    "try it|the same call|like before|as before|do that again|run it again|a second time|another "
    "one|repeat that]"
)
_IS = (
    "[is|was meant to be|must be|has to be|ought to be|is really|becomes|changes to|is to be|was|"
    "is now|needs to be|would be|is actually|has changed to|is supposed to be|could be|=]"
)

NAMED = (
    f"[|||{_LEAD}, ][the|that|its|my|the right] {{words}} {_IS} {{value}}{_DOT}",
    f"[|||{_LEAD}, ][please |can you |could you |I want to |let us |||]{_SET} the {{words}} to "
    f"{{value}}{_DOT}",
    f"[|||{_LEAD}, ]{{words}}[:| =||,] {{value}}{_DOT}",
    f"[|||{_LEAD}, ][take|use|try|pick|choose|put|give it|I prefer|I want|go with] {{value}} [for|"
    f"as] the {{words}}{_DOT}",
    f"{_SAME}[,|| but| only| except] with [{{words}} {{value}}|{{value}} as the {{words}}|the "
    f"{{words}} {{value}}|another {{words}}, {{value}}]{_DOT}",
    f"[|||{_LEAD}, ][I wanted|I meant|I said|I need|I want|I mean|it was|it is|let it be|I thought "
    f"of] [{{words}} {{value}}|{{value}} for the {{words}}|the {{words}} {{value}}]{_DOT}",
    f"[|||{_LEAD}, ]not {{old}}[,| but] {{value}}[ as the {{words}}| for the {{words}}| is the "
    f"{{words}}]{_DOT}",
    "[what if|suppose|and if|and what if] the {words} [were|was|is|became] {value}[?|]",
    "[how about|what about|and with|and for|now with|now|then|also] {words} {value}[?||]",
    "[let|have] the {words} be {value}" + _DOT,
    "[keep|leave] [the rest|everything else|all else], [but |only |][the |]{words} {value}" + _DOT,
    "[the {words} was wrong|wrong {words}|that {words} was not right|another {words}|different "
    "{words}|new {words}][:|,|. It is|, it is|, take] {value}" + _DOT,
    "[replace|swap|exchange] the {words} [by|with|for] {value}" + _DOT,
)
"""Corrections that name what is changed: `words`, its new `value`, the `old` one."""

BARE = (
    f"{_LEAD}[,|:|...|.| -] [||||I mean |I meant |rather |for |it's |it is |with |take |that is |"
    f"use ]{{value}}{_DOT}",
    "[and|what about|how about|now|now do|now for|then|and for|and with|also|also for|the same for|"
    "the same with|same for|as well for|likewise for|next][ this:||||] {value}[?||.|, please]",
    f"{{value}}[, not| and not| rather than|, no longer| in place of] {{old}}{_DOT}",
    f"[not|no longer|never] {{old}}[,| but|. I want|, take|. It is|, rather] {{value}}{_DOT}",
    f"I [said|meant|mean|wanted|want|need|was thinking of|prefer|would like] {{value}}[||, not "
    f"{{old}}]{_DOT}",
    f"{_SAME}[,|| but| only] [with|for] {{value}}{_DOT}",
    "[replace|swap|exchange] {old} [by|with|for] {value}" + _DOT,
    "[try|take|use|go with|do|choose|pick] {value}[| this time| today| now| rather]" + _DOT,
    "{value}[, I meant|, that is|, sorry|, please|!|. My mistake|, I said|, of course| I mean|]",
    "[better|rather|preferably|maybe|perhaps|ideally] {value}" + _DOT,
)
"""Corrections that give the new `value` alone, perhaps with the `old` one."""

REPEATED = (
    "[please |||can you |could you |||][repeat|redo|rerun|do|run|try|start|execute|send|call] "
    "[that|it|this|the same|the last one|the call|the same thing] [again|once more|a second time|"
    "anew|another time|twice|afresh]" + _DOT,
    "[again|once more|and again|the same again|same again|another time|a second time|anew|repeat|"
    "redo|encore|ditto|as before|twice, please|go again|retry|another round]" + _DOT,
    "[please |||can you |][repeat|redo|rerun|retry] [that|it|this|the last step|the call|the "
    "request|what you did]" + _DOT,
    "[I want|I need|let me have|give me] [that|it|this|the same] [again|once more|a second time]"
    + _DOT,
    "[do|try|run] [what you did|the same|that] [before|a second time|as a test|to be sure]" + _DOT,
)
"""Wishes to have the last call again."""

JOINED = (
    "{}[,|.|;| -] [and then|then|after that|and after that|afterwards|later|finally|and finally|"
    "also|and also|besides|in addition|plus|and|and afterwards|then also|secondly|thereafter|"
    "following that|once this is over,|as soon as you have that,|after this,|as a second step,|on "
    "top of that,|with that finished,|the second thing:|then please] {}",
    "[first|first of all|to begin with|start with this:|firstly|at first|one:|begin:] {}[, then|; "
    "then|. Then|, and after that|. After that|. Afterwards|, secondly|. Later|, finally|, second] "
    "{}",
    "[two things|two tasks|please do both|both of these|do this in order|my list][:|.] {}[, and|; |"
    ". Then| and|,] {}",
    "1. {}[ |\n|, ]2. {}",
    "[- |* |a) ]{}\n[- |* |b) ]{}",
    "{}[. Once you have it,|. As soon as that is over,|. If that works,|. That done,|. Thanks. "
    "And] {}",
)
"""Requests of two things, the second one after the first."""
