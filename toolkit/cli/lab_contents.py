"""Opens the notebooks of `toolkit lab`: without widgets that are gone, and without marking them as changed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ipykernel.ipkernel import IPythonKernel
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, NoSuchKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from toolkit.saved_widgets import drop_views, widgets_shown

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: Seconds that a kernel has to list its widgets. One that runs a cell does not answer until it is done.
_PATIENCE = 1.0


class LabContents(AsyncLargeFileManager):
    """JupyterLab's file manager; a notebook is opened without views of widgets that no kernel holds.

    The file itself is not changed.
    """

    async def get(
        self,
        path: str,
        content: bool = True,
        type: str | None = None,  # noqa: A002 - the name is Jupyter's
        format: str | None = None,  # noqa: A002 - the name is Jupyter's
        require_hash: bool = False,
    ) -> dict[str, Any]:
        got = super().get(path, content, type, format, require_hash)  # type: ignore[no-untyped-call]
        model: dict[str, Any] = await got
        if content and model["type"] == "notebook":
            if shown := widgets_shown(model["content"]):
                drop_views(model["content"], await self._alive(path, shown))
            self._name_kernel(model["content"])
        return model

    def _name_kernel(self, notebook: dict[str, Any]) -> None:
        # JupyterLab writes this when the kernel has started, and the notebook would count as changed.
        if self.parent is None or notebook["metadata"].get("kernelspec", {}).get("name") != NATIVE_KERNEL_NAME:
            return
        with suppress(NoSuchKernel):
            spec = self.parent.kernel_spec_manager.get_kernel_spec(NATIVE_KERNEL_NAME)
            names = {"display_name": spec.display_name, "language": spec.language, "name": NATIVE_KERNEL_NAME}
            notebook["metadata"] |= {"kernelspec": names, "language_info": dict(IPythonKernel.language_info)}

    async def _alive(self, path: str, shown: set[str]) -> set[str]:
        """Return those of the widgets `shown` that kernels of this notebook hold."""
        server: ServerApp | None = self.parent
        if server is None:
            return set()
        alive: set[str] = set()
        for session in await server.session_manager.list_sessions():
            if session["path"].strip("/") == path.strip("/"):
                held = await self._held_by(server.kernel_manager.get_kernel(session["kernel"]["id"]))
                alive |= shown if held is None else held
        return alive

    async def _held_by(self, kernel: Any) -> set[str] | None:  # noqa: ANN401 - of whatever class is configured
        """Return the widgets of a kernel, None where it is too busy to answer."""
        if not await kernel.is_alive():
            return set()
        client = kernel.client()
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        try:
            reply = await client.comm_info(target_name="jupyter.widget", reply=True, timeout=_PATIENCE)
        except TimeoutError:
            return None
        finally:
            client.stop_channels()
        return set(reply["content"].get("comms", ()))
