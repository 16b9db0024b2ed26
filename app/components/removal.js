// Streamlit also cleans up after a call that a newer one has overtaken. The element stays then, and so does what is in it.
function onRemoval(parentElement, close) {
  return () => parentElement.isConnected || close();
}
