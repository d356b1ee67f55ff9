(() => {
  const unpacked = text => new Response(new Blob([Uint8Array.from(atob(text), each => each.charCodeAt(0))]).stream()
    .pipeThrough(new DecompressionStream("gzip"))).text();
  const modules = (window.toolkitSaved ??= {});
  for (const box of document.querySelectorAll(".toolkit-saved:not([data-shown])")) {
    box.dataset.shown = "";
    const { version, module, page } = JSON.parse(box.querySelector("script").textContent);
    modules[version] ??= unpacked(module)
      .then(text => import(URL.createObjectURL(new Blob([text], { type: "text/javascript" }))))
      .then(found => {
        document.head.append(Object.assign(document.createElement("style"), { textContent: found.styles }));
        return found;
      });
    // If this fails, the picture stays.
    Promise.all([modules[version], unpacked(page)]).then(([{ showSaved }, data]) => {
      box.querySelector("img").remove();
      showSaved(box, JSON.parse(data));
    });
  }
})();
