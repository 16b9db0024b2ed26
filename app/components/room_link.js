// A browser in a room: shows the counts, and runs the page again when the room was changed or closed.
export default function ({ data, parentElement, setTriggerValue }) {
  const link = (parentElement.fedscapeRoom ??= new RoomLink(parentElement));
  link.show(data, setTriggerValue);
  return onRemoval(parentElement, () => {
    link.close();
    delete parentElement.fedscapeRoom;
  });
}

class RoomLink {
  static REPEAT_MS = 5000; // a page that runs may miss a trigger

  constructor(root) {
    this.line = root.querySelector(".room-counts");
    this.polling = new Polling(() => this.address, (body, status) => this.answered(body, status));
  }

  show({ address, version, text, wait_ms }, send) {
    if (version !== this.version) this.sentAt = undefined;
    Object.assign(this, { address, version, send });
    this.line.textContent = text;
    this.polling.soon(wait_ms);
  }

  close() {
    this.polling.close();
  }

  // A page without a version does not follow: only the end of the room concerns it.
  answered({ version, text }, status) {
    if (text !== undefined && this.line.textContent) this.line.textContent = text;
    const is_new = this.version !== null && version !== undefined && version !== this.version;
    if (status === 404 || is_new) this.runAgain();
  }

  runAgain() {
    if (Date.now() - (this.sentAt ?? 0) < RoomLink.REPEAT_MS) return;
    this.sentAt = Date.now();
    this.send("moved", this.sentAt);
  }
}
