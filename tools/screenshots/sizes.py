"""The sizes and colour schemes of pictures."""

from typing import Literal, TypeAlias

from playwright.async_api import ViewportSize

Scheme: TypeAlias = Literal["light", "dark"]
Size: TypeAlias = Literal["wide", "narrow"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SIZES: dict[Size, ViewportSize] = {
    "wide": {"width": 1280, "height": 800},
    "narrow": {"width": 390, "height": 844},
}
