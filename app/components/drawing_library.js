// Loads the drawing library from this host, once per page, with the first figure.
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
