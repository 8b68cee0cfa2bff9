"""Names of Python by kind, and what each does: what the rehearsal's chats are about."""

TABLE: dict[str, tuple[str, ...]] = {
    "list method": (
        "append: adds one item to the end",
        "extend: adds all items of another list",
        "insert: puts an item before a position",
        "remove: deletes the first equal item",
        "reverse: turns the order of the items around",
        "sort: puts the items in order",
        "index: finds the first place of an item",
        "count: tells how often an item is there",
    ),
    "string method": (
        "upper: makes all letters large",
        "lower: makes all letters small",
        "strip: removes blanks from both ends",
        "split: cuts the text into a list of parts",
        "join: puts parts together to one text",
        "replace: puts one part in place of another",
        "startswith: tells whether the text begins with a part",
        "title: makes the first letter of each word large",
    ),
    "dictionary method": (
        "get: finds the value of a key or a default",
        "items: gives pairs of keys and values",
        "keys: gives all keys",
        "values: gives all values",
        "update: takes over the pairs of another dictionary",
        "setdefault: sets a value only when the key is new",
        "popitem: removes the last pair and gives it back",
        "clear: removes all pairs",
    ),
    "builtin function": (
        "len: tells how many items there are",
        "print: writes text to the screen",
        "sum: adds all numbers",
        "max: finds the largest item",
        "min: finds the smallest item",
        "sorted: makes a list of all items in order",
        "range: counts from one number to another",
        "zip: walks over several lists at once",
        "map: calls a function for each item",
        "open: opens a file",
    ),
    "keyword": (
        "for: walks over all items",
        "while: repeats a block as long as a test holds",
        "return: ends a function and gives a value back",
        "import: loads a module",
        "with: closes a file or a lock at the end of a block",
        "yield: gives one value and waits for the next call",
        "lambda: makes a small function without a name",
        "raise: reports an error",
    ),
    "exception": (
        "ValueError: tells that a value does not fit",
        "TypeError: tells that a type does not fit",
        "KeyError: tells that a key is missing",
        "IndexError: tells that a place is outside of the list",
        "NameError: tells that a name is not known",
        "OSError: tells that the system refused something",
    ),
}
"""What each name does, by kind; the verb comes first."""
WHERE = {
    "list method": "It is called on a list.",
    "string method": "It is called on a text.",
    "dictionary method": "It is called on a dictionary.",
    "builtin function": "It is always there, without an import.",
    "keyword": "It is a word of the language itself.",
    "exception": "It is caught with try and except.",
}


def _facts() -> dict[str, tuple[str, str]]:
    pairs = {}
    for kind, lines in TABLE.items():
        for line in lines:
            name, _, does = line.partition(": ")
            pairs[name] = (kind, does)
    return pairs


FACTS = _facts()
"""Name to (kind, what it does)."""
