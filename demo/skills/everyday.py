"""Functions as people really declare them, and requests as people word them."""

from collections.abc import Sequence

from demo.skills.case import Draw
from demo.skills.forms import Field, Filled, fill, object_schema
from demo.skills.words import person, text_value
from harmony.messages import FunctionTool

PLACES = [
    "Paris",
    "Berlin",
    "Rome",
    "London",
    "Madrid",
    "Tokyo",
    "Vienna",
    "Lisbon",
    "Dublin",
    "Oslo",
    "Boston",
    "Chicago",
    "Denver",
    "Miami",
    "Seattle",
    "Toronto",
    "Sydney",
    "Munich",
    "Hamburg",
    "Prague",
    "Warsaw",
    "Athens",
    "Cairo",
    "Delhi",
    "Mumbai",
    "Seoul",
    "Lima",
    "New York",
    "San Francisco",
    "Los Angeles",
    "Hong Kong",
    "Cape Town",
    "Buenos Aires",
]

_LANGUAGES = ("German", "French", "Spanish", "Italian", "English", "Polish", "Dutch", "Japanese")

# name, description, fields (name, kind, choices or source), requests
_Spec = tuple[Sequence[str], str, Sequence[tuple[str, str, Sequence[str]]], Sequence[str]]

_PLACE: tuple[str, str, Sequence[str]] = ("city|location|place|town", "place", ())

_SPECS: tuple[_Spec, ...] = (
    (
        ("get_weather", "weather", "current_weather", "get_current_weather", "fetch_weather"),
        "Get the current weather for a place",
        (_PLACE, ("unit|units", "enum?", ("celsius", "fahrenheit"))),
        (
            "what's the weather in {0}",
            "what is the weather like in {0}",
            "how is the weather in {0} today",
            "weather in {0}",
            "is it raining in {0}",
            "will I need an umbrella in {0}",
            "tell me the weather for {0} in {1}",
            "how warm is it in {0}, in {1}",
        ),
    ),
    (
        ("get_forecast", "weather_forecast"),
        "Get the forecast for the next days",
        (_PLACE, ("days", "integer", ())),
        (
            "what will the weather be in {0} for the next {1} days",
            "give me a {1} day forecast for {0}",
            "forecast for {0}, {1} days",
        ),
    ),
    (
        ("get_time", "current_time", "get_local_time"),
        "Get the local time somewhere",
        (_PLACE,),
        ("what time is it in {0}", "tell me the time in {0}", "what's the local time in {0}"),
    ),
    (
        ("search_web", "web_search", "search"),
        "Search the web",
        (("query|q", "string", ()),),
        (
            "search the web for {0}",
            "look up {0} online",
            "search for {0}",
            "google {0}",
            "find pages about {0}",
        ),
    ),
    (
        ("send_email", "send_mail"),
        "Send an email",
        (
            ("to|recipient", "person", ()),
            ("subject", "string", ()),
            ("body|message", "string?", ()),
        ),
        (
            "send an email to {0} with the subject {1}",
            "email {0} about {1}",
            "write an email to {0} with subject {1} and body {2}",
            "send {0} a mail, subject {1}, saying {2}",
        ),
    ),
    (
        ("send_message", "send_sms", "send_text"),
        "Send a text message to someone",
        (("to|recipient|contact", "person", ()), ("text|message", "string", ())),
        ("text {0}: {1}", "send {0} the message {1}", "tell {0} {1}", "message {0} saying {1}"),
    ),
    (
        ("translate", "translate_text"),
        "Translate a text",
        (("text", "string", ()), ("language|target_language|to", "enum", _LANGUAGES)),
        (
            "translate {0} to {1}",
            "translate {0} into {1}",
            "how do you say {0} in {1}",
            "what is {0} in {1}",
        ),
    ),
    (
        ("get_stock_price", "stock_price"),
        "Get a stock's price",
        (("symbol|ticker", "string", ()),),
        (
            "what is the stock price of {0}",
            "how much is one share of {0}",
            "get the price of {0} stock",
        ),
    ),
    (
        ("set_timer", "start_timer"),
        "Start a timer",
        (("minutes", "integer", ()),),
        (
            "set a timer for {0} minutes",
            "start a {0} minute timer",
            "wake me in {0} minutes",
        ),
    ),
    (
        ("create_event", "add_event", "create_calendar_event"),
        "Add an event to the calendar",
        (("title", "string", ()), ("date", "date", ()), ("location", "place?", ())),
        (
            "add {0} to my calendar on {1}",
            "put {0} on {1} into the calendar",
            "create an event called {0} on {1} in {2}",
        ),
    ),
    (
        ("book_flight", "search_flights", "find_flights"),
        "Find flights between two cities",
        (("from|origin", "place", ()), ("to|destination", "place", ()), ("date", "date?", ())),
        (
            "find a flight from {0} to {1}",
            "I want to fly from {0} to {1}",
            "flights from {0} to {1} on {2}",
            "book a flight from {0} to {1} on {2}",
        ),
    ),
    (
        ("book_table", "reserve_table", "book_restaurant"),
        "Reserve a table in a restaurant",
        (("restaurant|name", "string", ()), ("people|guests|party_size", "integer", ())),
        (
            "book a table for {1} at {0}",
            "reserve a table at {0} for {1} people",
            "I need a table for {1} in {0}",
        ),
    ),
    (
        ("turn_on_light", "switch_light", "set_light"),
        "Switch the light in a room",
        (("room", "enum", ("kitchen", "bedroom", "bathroom", "office")), ("on", "boolean", ())),
        ("set the light in the {0} to {1}", "light in the {0}: {1}", "turn the {0} light {1}"),
    ),
    (
        ("play_music", "play_song"),
        "Play music",
        (("title|song|query", "string", ()), ("artist", "person?", ())),
        ("play {0}", "play the song {0}", "play {0} by {1}", "put on {0} by {1}"),
    ),
    (
        ("add_task", "create_todo", "add_reminder"),
        "Add something to the list of things to do",
        (("title|text|task", "string", ()), ("priority", "enum?", ("low", "normal", "high"))),
        (
            "remind me of {0}",
            "add {0} to my to-do list",
            "add the task {0} with {1} priority",
        ),
    ),
    (
        ("read_file", "open_file", "get_file"),
        "Read a file",
        (("path|filename|file", "string", ()),),
        ("read the file {0}", "show me the file {0}", "what is in the file {0}"),
    ),
    (
        ("convert_currency", "exchange"),
        "Convert an amount of money",
        (
            ("amount", "integer", ()),
            ("from|from_currency", "enum", ("USD", "EUR", "GBP", "JPY")),
            ("to|to_currency", "enum", ("USD", "EUR", "GBP", "JPY")),
        ),
        ("convert {0} {1} to {2}", "how much is {0} {1} in {2}", "what are {0} {1} in {2}"),
    ),
    (
        ("get_order", "order_status", "track_order"),
        "Get the status of an order",
        (("order_id|id|number", "integer", ()),),
        ("where is my order {0}", "what is the status of order {0}", "track order number {0}"),
    ),
    (
        ("search_products", "find_products", "search_shop"),
        "Search the shop",
        (("query|name|product", "string", ()), ("max_price", "integer?", ())),
        (
            "show me {0} in the shop",
            "I want to buy {0}",
            "find {0} for less than {1}",
            "search {0} under {1} dollars",
        ),
    ),
    (
        ("get_user", "find_user", "lookup_contact"),
        "Look up a person",
        (("name|username|person", "person", ()),),
        ("who is {0}", "look up {0}", "find the contact {0}", "show me the profile of {0}"),
    ),
)


def draw(draw_: Draw) -> tuple[FunctionTool, str, tuple[Filled, ...]]:
    """A function, a request for it, and the values that the request gives."""
    names, about, specs, requests = draw_.pick(_SPECS)
    fields = [_field(draw_, *spec) for spec in specs]
    optional = [spec[1].endswith("?") for spec in specs]
    request = draw_.pick(requests)
    used = [i for i in range(len(fields)) if f"{{{i}}}" in request]
    values = {i: _value(draw_, fields[i], specs[i][1]) for i in used}
    texts = [values[i].text if i in values else "" for i in range(len(fields))]
    required = [field for field, free in zip(fields, optional, strict=True) if not free]
    schema = object_schema(fields, required, strict=draw_.chance(0.5))
    description = draw_.pick((about, about, f"{about}.", None))
    tool = FunctionTool(draw_.pick(names), description, schema)
    return tool, request.format(*texts), tuple(values[i] for i in sorted(values))


def _field(draw_: Draw, name: str, kind: str, choices: Sequence[str]) -> Field:
    plain = kind.rstrip("?")
    kind = plain if plain in ("integer", "boolean", "enum") else "string"
    chosen = draw_.pick(name.split("|"))
    about = draw_.pick((None, f"The {chosen.replace('_', ' ')}"))
    return Field(chosen, kind, about, tuple(choices))


def _value(draw_: Draw, field: Field, kind: str) -> Filled:
    match kind.rstrip("?"):
        case "place" if draw_.chance(0.6):
            place = draw_.pick(PLACES)
            return Filled(field, place, place)
        case "person":
            name = person(draw_.rng, draw_.split)
            return Filled(field, name, name)
        case "date":
            rng = draw_.rng
            date = f"{rng.randint(2024, 2029)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
            return Filled(field, date, date)
        case "integer":
            number = draw_.rng.choice((draw_.rng.randint(1, 20), draw_.rng.randint(1, 999)))
            return Filled(field, number, str(number))
        case "boolean":
            truth = draw_.chance(0.5)
            return Filled(field, truth, "on" if truth else "off")
        case "enum":
            return fill(draw_, field)
        case _:
            text = text_value(draw_.rng, draw_.split)
            return Filled(field, text, text)
