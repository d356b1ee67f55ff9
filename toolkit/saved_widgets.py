"""Widgets in saved notebooks: without its kernel, a widget is shown as the picture in the same output.

A notebook only holds the identifier of a widget's model. Without the model, JupyterLab shows an error instead of the
picture. Saved states of widgets do not help: JupyterLab marks the notebook as changed and drops them at the next save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_NOTHING_ELSE = {"text/plain": "A widget. Run the cell to use it."}


def widgets_shown(notebook: Mapping[str, Any]) -> set[str]:
    """Return the model identifiers of all widgets in the outputs of a notebook."""
    return {_model_of(data) for data in _widget_outputs(notebook)}


def drop_views(notebook: Mapping[str, Any], alive: Collection[str] = ()) -> None:
    """Remove the views of widgets whose models are not alive, in place; their pictures or texts are shown instead."""
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
