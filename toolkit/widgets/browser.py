"""What a widget asks of the browsers that show it: to download a file, or to copy a text."""

import anywidget


class Browser(anywidget.AnyWidget):
    """Invisible; it works as soon as a page shows the widget that it belongs to."""

    _esm = """
    const bytesOf = view => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);

    function download(name, buffers) {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(buffers.map(bytesOf)));
      link.download = name;
      document.body.append(link);
      link.click();
      link.remove();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    }

    export default {
      initialize({ model }) {
        model.on("msg:custom", ({ name, text }, buffers) => {
          if (name) download(name, buffers);
          else navigator.clipboard?.writeText(text).catch(() => {}); // then a person can select the text
        });
      },
      render() {},
    };
    """

    def download(self, name: str, content: bytes) -> None:
        self.send({"name": name}, [content])

    def copy(self, text: str) -> None:
        self.send({"text": text})
