"""How `make site` writes the web pages: from the whole repository, out of the outputs that the lessons came with."""

import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # pages.py, and the course itself, which draws its map

project = "The encoder-decoder Transformer"
html_title = project
language = "en"
extensions = ["myst_nb", "pages"]

# The sources are the repository's own files, so that their links to each other hold; docs/index.md is the first page.
root_doc = "docs/index"
include_patterns = ["notebooks/[0-9][0-9]_*.ipynb", "docs/*.md", "benchmarks/*/*.md", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = [
    *(".*", "site", "runs", "my_lessons", "student_lessons", "colab"),  # not even looked into
    "benchmarks/*/*_notes.md",  # words that a benchmark puts into its page
]

nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # with math, as in the lessons
nb_custom_formats = {".ipynb": ["pages.read_lesson", {}]}
myst_enable_extensions = ["dollarmath", "amsmath", "substitution", "attrs_inline"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

# What is written for the pages, and lives no longer than the run that copies it: the font and the map.
generated = tempfile.TemporaryDirectory(prefix="course-pages-")
pages_files = generated.name
templates_path = ["_templates"]
html_static_path = ["_static", generated.name]
html_favicon = "_static/favicon.svg"
html_css_files = ["course.css"]
html_js_files = ["keyboard.js", "contents.js", "roots.js", ("answering.js", {"defer": "defer"})]
html_theme = "furo"
html_logo = "_static/favicon.svg"
html_theme_options = {  # the colors of the controls: tfm_lib/show/js/control.css
    "light_css_variables": {
        "color-brand-primary": "#08306b",
        "color-brand-content": "#006aae",
        "color-brand-visited": "#6b2f86",
        "color-foreground-primary": "#1f2933",
        "color-foreground-secondary": "#52606d",
        "color-foreground-muted": "#5d6a77",
        "color-background-secondary": "#f1f4f7",
        "color-highlight-on-target": "#e6f0f9",
    },
    "dark_css_variables": {
        "color-brand-primary": "#a9d0ea",
        "color-brand-content": "#5cb8ee",
        "color-brand-visited": "#d0a6e6",
        "color-foreground-primary": "#e4e8ee",
        "color-foreground-secondary": "#a9b4c0",
        "color-foreground-muted": "#98a3af",
        "color-background-primary": "#171b20",
        "color-background-secondary": "#11151a",
        "color-highlight-on-target": "#1c2a37",
    },
}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

repository = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["course"]["repository"]
myst_substitutions = {"course": "the course"}
if repository:
    owner, name = repository.split("/")[-2:]
    html_baseurl = f"https://{owner.lower()}.github.io/{name}/"  # where .github/workflows/pages.yml publishes
    html_theme_options |= {"source_repository": repository, "source_branch": "main", "source_directory": ""}
    myst_substitutions = {"course": f"[the course]({repository})"}
