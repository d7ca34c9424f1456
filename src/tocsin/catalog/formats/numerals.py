"""The digits and signs of a language's numbering system."""

from collections.abc import Mapping

from babel import Locale

# The zero of every numbering system that is some language's default (CLDR); nine digits follow each.
_ZEROS: Mapping[str, str] = {
    "adlm": "\U0001e950",
    "arab": "\u0660",
    "arabext": "\u06f0",
    "beng": "\u09e6",
    "cakm": "\U00011136",
    "deva": "\u0966",
    "hmnp": "\U0001e140",
    "mtei": "\uabf0",
    "mymr": "\u1040",
    "nkoo": "\u07c0",
    "olck": "\u1c50",
    "tibt": "\u0f20",
}


class Numerals:
    """Replaces the Latin digits and ASCII signs of Babel's output with those of a language."""

    __slots__ = ("_digits", "_minus", "_percent", "system")

    def __init__(self, locale: Locale) -> None:
        wanted = locale.default_numbering_system
        self.system = wanted if wanted in _ZEROS and wanted in locale.number_symbols else "latn"
        symbols = locale.number_symbols.get(self.system, {})
        zero = ord(_ZEROS.get(self.system, "0"))
        self._digits = {ord("0") + digit: zero + digit for digit in range(10)} if zero != ord("0") else None
        # In right-to-left languages these include marks that keep the sign on its side of the number.
        self._minus = symbols.get("minusSign", "-")
        self._percent = symbols.get("percentSign", "%")

    def digits(self, text: str) -> str:
        """Replace the digits of a text."""
        return text if self._digits is None else text.translate(self._digits)

    def number(self, text: str) -> str:
        """Replace the digits and the minus sign of a number."""
        return self.digits(text.replace("-", self._minus))

    def percent(self, text: str) -> str:
        """Replace the digits and the signs of a percentage."""
        return self.number(text).replace("%", self._percent)
