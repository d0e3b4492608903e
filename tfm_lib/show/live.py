"""What a cell shows with a kernel and without one: a control, and beside it the static form that is stored."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loads only where a control is made
    from ipywidgets import Widget

VIEW = "application/vnd.jupyter.widget-view+json"


def store_static_forms(model: dict[str, Any], **_: Any) -> None:
    """What JupyterLab runs before it saves a file: takes the views out of a notebook whose outputs have a static form.

    A view names a control of one kernel. Without this, a lesson opened again shows an error in its place.
    """
    if model["type"] == "notebook":
        for cell in model["content"]["cells"]:
            for output in cell.get("outputs", []):
                if "text/plain" in output.get("data", {}):
                    output["data"].pop(VIEW, None)


class Live:
    """A widget and its static form in one output: a page with a kernel shows the one, any other page the other.

    `data` maps MIME types to the static form: "text/plain" always, perhaps "image/png" too; `metadata` is its
    metadata, such as the alt text. That is what `_repr_mimebundle_` of a figure returns, so a control around a
    figure is `Live(widget, *figure._repr_mimebundle_())`. Lessons are stored without the widget's view, since its
    model lives in one kernel only.

    Raises ValueError if there is no text/plain, which is all that some pages show.
    """

    def __init__(self, widget: "Widget", data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
        if "text/plain" not in data:
            raise ValueError(
                f"the static form has {sorted(data)}; add 'text/plain', a sentence that says what is shown"
            )
        self.widget, self.data, self.metadata = widget, dict(data), dict(metadata or {})

    def __repr__(self) -> str:
        return str(self.data["text/plain"])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {**self.data, VIEW: view}, self.metadata
