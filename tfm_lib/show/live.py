"""What a cell shows with a kernel and without one: a control, and beside it the static form that is stored."""

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loads only where a control is made
    from ipywidgets import Widget

VIEW = "application/vnd.jupyter.widget-view+json"
ON_PAGES = "application/vnd.tfm-control+json"  # of what a page builds the control anew; notebooks show something else


def caption(message: str) -> str:
    """The words under a picture, as HTML: text that wraps, and in which no page takes a dollar sign for math."""
    style = "max-width: 740px; margin: 0; font-size: 92%; line-height: 1.45"
    return f'<p class="caption mathjax_ignore tex2jax_ignore" style="{style}">{escape(message)}</p>'


def static_form(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is stored of an output: itself without the view of a control, and the words under the control's picture.

    A view names a control of one kernel: a lesson opened again would show an error in its place.
    """
    data, about = dict(output.get("data", {})), output.get("metadata", {})
    if VIEW not in data or "text/plain" not in data:
        return [dict(output)]
    del data[VIEW]
    message = about.get("image/png", {}).get("caption")
    words = {"output_type": "display_data", "data": {"text/html": caption(message or "")}, "metadata": {}}
    return [{**output, "data": data}, *[words] * (message is not None)]


def store_static_forms(model: dict[str, Any], **_: Any) -> None:
    """What JupyterLab runs before it saves a file: of the controls in a notebook it stores the static forms."""
    if model["type"] == "notebook":
        for cell in model["content"]["cells"]:
            if "outputs" in cell:
                cell["outputs"] = [stored for output in cell["outputs"] for stored in static_form(output)]


class Live:
    """A widget and its static form in one output: a page with a kernel shows the one, any other page the other.

    `data` (the static form by MIME type) and `metadata` are what a figure's `_repr_mimebundle_` returns: a control
    around a figure is `Live(widget, *figure._repr_mimebundle_())`. Raises ValueError if there is no text/plain, all
    that some pages show.
    """

    def __init__(self, widget: "Widget", data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
        if "text/plain" not in data:
            raise ValueError(f"the static form has {sorted(data)}; add 'text/plain', a sentence on what is shown")
        self.widget, self.data, self.metadata = widget, dict(data), dict(metadata or {})

    def __repr__(self) -> str:
        return str(self.data["text/plain"])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {**self.data, VIEW: view}, self.metadata
