// Streamlit also cleans up after a call that a newer one has replaced. The element and its content are still in use then.
function onRemoval(parentElement, close) {
  return () => parentElement.isConnected || close();
}
