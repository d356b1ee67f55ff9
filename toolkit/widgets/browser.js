// Lets the browsers that show a widget download a file or copy a text. It works as soon as a page shows the widget.

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
