"""Widgets in saved notebooks: where the widget itself is gone, its output shows the picture that lies beside it.

A notebook does not hold a widget, only the identifier of its model in a kernel. Without that model JupyterLab writes
"Error displaying widget: model not found", although the same output has a picture. Saving the state of widgets does
not help: JupyterLab marks a notebook as changed when it restores a state, and drops the state at the next save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_NOTHING_ELSE = {"text/plain": "A widget. Run the cell to use it."}


def widgets_shown(notebook: Mapping[str, Any]) -> set[str]:
    """Return the identifiers of all models that outputs of a notebook refer to."""
    return {_model_of(data) for data in _widget_outputs(notebook)}


def drop_views(notebook: Mapping[str, Any], alive: Collection[str] = ()) -> None:
    """Take the views of widgets out of a notebook, in place, except those whose models are still alive.

    What else an output has (a picture, a line of text) stays and is shown instead.
    """
    for data in _widget_outputs(notebook):
        if _model_of(data) not in alive:
            del data[WIDGET_VIEW]
            if not data:
                data.update(_NOTHING_ELSE)


def _widget_outputs(notebook: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if WIDGET_VIEW in data:
                yield data


def _model_of(data: Mapping[str, Any]) -> str:
    view = data[WIDGET_VIEW]
    return str(view.get("model_id", "")) if isinstance(view, Mapping) else ""
