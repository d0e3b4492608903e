"""Where the course is published: said once in pyproject.toml, and from there in the README and the citation."""

import re
import tomllib

from tests import ROOT

ADDRESS = re.compile(r"https://github\.com/[A-Za-z0-9-]+/[A-Za-z0-9._-]*[A-Za-z0-9_-]")
START = "## Start\n"  # of the README, where whoever cannot install is offered a machine, or the pages
BADGES = re.compile(r"\n\[!\[Open in Codespaces\].*\n(?:.+\n)*")
CLONE = re.compile(r"^git clone .*\n", re.MULTILINE)
URLS = re.compile(r"^\[project\.urls\]\n(?:.+\n)*\n", re.MULTILINE)
CITED = re.compile(r"^(?:repository-code|url): .*\n", re.MULTILINE)


def repository() -> str:
    """The address of the repository, or "" while it has none; ValueError as by `checked`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return checked(project["tool"]["course"]["repository"])


def checked(address: str) -> str:
    """The address, if it is none or has the form that badges and pip need; else ValueError."""
    if address and (not ADDRESS.fullmatch(address) or address.endswith(".git")):
        raise ValueError(
            f"the address of the repository is {address!r}; Colab opens lessons from GitHub only: "
            'write "https://github.com/OWNER/NAME", without .git and without a slash at the end'
        )
    return address


def pages(address: str) -> str:
    """Where GitHub shows the pages of a repository, as `.github/workflows/pages.yml` publishes them."""
    owner, _, name = address.removeprefix("https://github.com/").partition("/")
    return f"https://{owner.lower()}.github.io/{name}/" if address else ""


def colab_badge(address: str, name: str) -> str:
    """The badge that opens the lesson of that file name in Colab."""
    target = address.replace("https://github.com", "https://colab.research.google.com/github", 1)
    picture = "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open in Colab]({picture})]({target}/blob/main/notebooks/{name})"


def in_readme(text: str, address: str) -> str:
    """The README with what opens the course without an installation, and with the line that clones it."""
    text = CLONE.sub("", BADGES.sub("", text))
    if not address:
        return text
    target = address.replace("https://github.com", "https://codespaces.new", 1)
    container = f"[![Open in Codespaces](https://github.com/codespaces/badge.svg)]({target})"
    lesson = colab_badge(address, "00_start_here.ipynb")
    read = f"Or [read the lessons on the web]({pages(address)}), with all that moves in them."
    text = text.replace(START, f"{START}\n{container}\n{lesson}\n{read}\n", 1)
    return text.replace("```sh\n", f"```sh\ngit clone {address} && cd {address.rpartition('/')[2]}\n", 1)


def in_pyproject(text: str, address: str) -> str:
    """The same for pyproject.toml: the one place that decides, and the links that an index shows."""
    text = URLS.sub("", text)
    urls = f'[project.urls]\nRepository = "{address}"\nDocumentation = "{pages(address)}"\n\n' if address else ""
    text = text.replace("[project.scripts]\n", f"{urls}[project.scripts]\n", 1)
    return re.sub(r'^repository = ".*"$', f'repository = "{address}"', text, count=1, flags=re.MULTILINE)


def in_citation(text: str, address: str) -> str:
    """The same for CITATION.cff."""
    lines = f'repository-code: "{address}"\nurl: "{pages(address)}"\n' if address else ""
    return CITED.sub("", text).replace("authors:\n", f"{lines}authors:\n", 1)


STAMPED = {"README.md": in_readme, "pyproject.toml": in_pyproject, "CITATION.cff": in_citation}


def publish(address: str) -> None:
    """Write the address into these files; `make stamp` writes the rest. Raises ValueError as `checked`."""
    checked(address)
    for name, stamped in STAMPED.items():
        path = ROOT / name
        path.write_text(stamped(path.read_text(encoding="utf-8"), address), encoding="utf-8")
