// Polls the room of this page: shows the counts, and reruns the page when the lecturer has changed or closed the room.
export default function ({ data, parentElement, setTriggerValue }) {
  const link = (parentElement.fedscapeRoom ??= new RoomLink(parentElement));
  link.show(data, setTriggerValue);
  return onRemoval(parentElement, () => {
    link.close();
    delete parentElement.fedscapeRoom;
  });
}

class RoomLink {
  static REPEAT_MS = 5000; // a running page may miss a trigger

  constructor(root) {
    this.line = root.querySelector(".room-counts");
    this.polling = new Polling(() => this.address, (body, status) => this.received(body, status));
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

  // A page that does not follow has no version, and is rerun only when the room is closed.
  received({ version, text }, status) {
    if (text !== undefined && this.line.textContent) this.line.textContent = text;
    const is_new = this.version !== null && version !== undefined && version !== this.version;
    if (status === 404 || is_new) this.rerun();
  }

  rerun() {
    if (Date.now() - (this.sentAt ?? 0) < RoomLink.REPEAT_MS) return;
    this.sentAt = Date.now();
    this.send("moved", this.sentAt);
  }
}
