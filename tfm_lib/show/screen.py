"""What every control is made of: knobs, a picture that follows them, and under it in words what the picture says."""

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from ipywidgets import HTML, Image, VBox, Widget
from matplotlib.artist import Artist
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image as Pixels
from traitlets import Unicode

from tfm_lib.show.figure import CSS_PIXELS_PER_INCH, Figure, style
from tfm_lib.show.live import Live, caption

KNOB = {
    "style": {"description_width": "8em"},
    "layout": {"width": "26em", "max_width": "100%"},
}  # so that those of a column line up


class Layout(NamedTuple):
    """The axes of a control: what moves on them, from back to front, and the function that moves it.

    An axis whose limits change moves, too. What moves seldom may be named apart: it is drawn behind the rest.
    """

    moving: Sequence[Artist]
    update: Callable[..., None]
    seldom: Sequence[Artist] = ()


class Picture(Image):
    """An image that a screen reader can name: by its `tooltip`, since ipywidgets knows no alt text for images.

    The front end shows a tooltip only where there is a description, and an image of ipywidgets has none.
    """

    description = Unicode().tag(sync=True)


class Screen:
    """A figure on the screen, with its message under it as a line of text, which a screen reader can read.

    The figure as it is now becomes the static form. From then on its layout stands still, and only what moves is drawn
    anew, from back to front, over a stored picture of all else; what moves `seldom` is stored, too, until it does.
    """

    def __init__(self, figure: Figure, moving: Sequence[Artist], seldom: Sequence[Artist] = ()) -> None:
        self._moving, self._seldom = moving, seldom
        for artist in (*seldom, *moving):
            # Only an axis takes room: where the axes stand is not for what is shown at first to say.
            artist.set_in_layout(isinstance(artist, Axis))
        self._static = figure._repr_mimebundle_()
        figure.set_layout_engine("none")
        for artist in (*seldom, *moving):
            artist.set_animated(True)  # left out by draw()
        self._canvas = FigureCanvasAgg(figure)
        self._canvas.draw()
        self._still, self._background = self._canvas.copy_from_bbox(figure.bbox), None
        width = f"{round(figure.get_size_inches()[0] * CSS_PIXELS_PER_INCH)}px"
        self.image = Picture(format="png", layout={"width": width, "max_width": "100%", "height": "auto"})
        self.words = HTML(layout={"max_width": width})
        self.show(figure.alt)

    @style()  # letters take their font when they are drawn, and other code of the kernel may have set another
    def show(self, message: str) -> None:
        """Draw what moves as it is now; the message says what there is to see."""
        if self._background is None or any(artist.stale for artist in self._seldom):
            self._draw(self._seldom, self._still)
            self._background = self._canvas.copy_from_bbox(self._canvas.figure.bbox)
        self._draw(self._moving, self._background)
        picture = Pixels.fromarray(np.asarray(self._canvas.buffer_rgba())).convert("RGB")
        png = BytesIO()
        picture.save(png, "png", compress_level=1)  # quick to write; it is never stored
        self.words.value = caption(message)
        with self.image.hold_sync():  # in one message, since each makes the page decode the picture anew
            self.image.tooltip, self.image.value = message, png.getvalue()

    def _draw(self, artists: Sequence[Artist], background: Any) -> None:
        self._canvas.restore_region(background)
        for artist in artists:
            artist.draw(self._canvas.get_renderer())
            artist.stale = False  # which one that is not visible would stay

    def live(self, *knobs: Widget) -> Live:
        """The control: the knobs, the picture under them, and the message under the picture."""
        return Live(VBox([*knobs, self.image, self.words]), *self._static)


def control(
    height: float, look: Callable[[], tuple[tuple, str]], lay_out: Callable[[Figure], Layout], *knobs: Widget
) -> Live:
    """A picture of `height` inches that follows its knobs.

    `look` reads the knobs and returns what is to be shown, and the message; `lay_out` draws the axes once. What `look`
    returned is handed to the layout's `update`.
    """
    shown, message = look()
    figure = Figure(message, height)
    layout = lay_out(figure)
    layout.update(*shown)
    screen = Screen(figure, layout.moving, layout.seldom)

    def turned(_: Any) -> None:
        shown, message = look()
        layout.update(*shown)
        screen.show(message)

    for knob in knobs:
        knob.observe(turned, "value")
        knob.tooltip = ""  # where there is none, ipywidgets shows "null" under the mouse
    return screen.live(*knobs)
