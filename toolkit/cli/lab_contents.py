"""The contents manager of `toolkit lab`, which keeps JupyterLab from marking a notebook as changed on opening."""

from contextlib import suppress
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, NoSuchKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager


class LabContents(AsyncLargeFileManager):
    """Completes the kernel's metadata in a notebook that JupyterLab opens; the file itself stays unchanged."""

    async def get(self, path: str, content: bool = True, *given: Any, **named: Any) -> dict[str, Any]:  # noqa: ANN401
        model: dict[str, Any] = await super().get(path, content, *given, **named)  # type: ignore[no-untyped-call]
        if content and model["type"] == "notebook":
            self._complete_kernel_metadata(model["content"])
        return model

    def _complete_kernel_metadata(self, notebook: dict[str, Any]) -> None:
        # Otherwise JupyterLab adds the metadata once the kernel has started, and marks the notebook as changed.
        if self.parent is None or notebook["metadata"].get("kernelspec", {}).get("name") != NATIVE_KERNEL_NAME:
            return
        with suppress(NoSuchKernel):
            spec = self.parent.kernel_spec_manager.get_kernel_spec(NATIVE_KERNEL_NAME)
            names = {"display_name": spec.display_name, "language": spec.language, "name": NATIVE_KERNEL_NAME}
            notebook["metadata"] |= {"kernelspec": names, "language_info": dict(IPythonKernel.language_info)}
