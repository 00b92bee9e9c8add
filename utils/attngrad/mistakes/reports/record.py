"""What is kept of a public report."""

from dataclasses import dataclass

GITHUB = "https://github.com/"
POST = "https://blog.csdn.net/pzccool/article/details/147657740"


@dataclass(frozen=True)
class Report:
    """One mistake as it was met in public.

    ``seen`` are addresses, ``text`` says what goes wrong, and ``mistakes`` are ids of wrong functions or
    wrong attentions that do the same. There are none where the cause was never published.
    """

    seen: tuple[str, ...]
    text: str
    mistakes: tuple[str, ...] = ()


def on_github(places: str, text: str, *mistakes: str) -> Report:
    """Return a report that stands in threads or files of GitHub."""
    return Report(tuple(GITHUB + place for place in places.split()), text, mistakes)
