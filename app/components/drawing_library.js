// The drawing library, from this host, once a page, when the first figure asks for it.
function loadPlotly(address) {
  window.fedscapePlotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      window.fedscapePlotly = undefined;
      reject(new TypeError("the drawing library did not load"));
    };
    document.head.append(script);
  });
  return window.fedscapePlotly;
}
