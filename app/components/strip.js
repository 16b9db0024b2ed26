// The thin strip: what runs, what waits, on which device. Asks rarely, and not at all while the tab is hidden.

const LOST_MS = 15000;

export default function ({ data, parentElement }) {
  const strip = (parentElement.fedscapeStrip ??= start(parentElement.querySelector(".strip")));
  strip.route = data.route;
  strip.say(data.text);
  strip.soon(data.wait_ms);
  return () => {
    strip.close();
    delete parentElement.fedscapeStrip;
  };
}

function start(line) {
  const strip = {
    say: (text) => (line.textContent = text),
    soon(wait) {
      clearTimeout(strip.timer);
      if (strip.route && !strip.closed) strip.timer = setTimeout(ask, wait);
    },
    close() {
      strip.closed = true;
      clearTimeout(strip.timer);
      document.removeEventListener("visibilitychange", look);
    },
  };
  async function ask() {
    if (document.hidden) return;
    try {
      const answer = await fetch(strip.route, { cache: "no-store" });
      const overview = await answer.json();
      strip.say(overview.text ?? overview.problem);
      strip.soon(overview.wait_ms ?? LOST_MS);
    } catch {
      strip.say("no connection to the app; trying again");
      strip.soon(LOST_MS);
    }
  }
  const look = () => !document.hidden && strip.soon(0);
  document.addEventListener("visibilitychange", look);
  return strip;
}
