// Keeps "3m 20s ago" true between two snapshots, and says exact times in the zone of who looks.

const units = [
  [86400, "d", 3600, "h"],
  [3600, "h", 60, "m"],
  [60, "m", 1, "s"],
  [1, "s", 0, ""],
];

export function countTimes() {
  count();
  setInterval(count, 1000);
}

function count() {
  if (document.hidden) return;
  const now = Date.now();
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = Date.parse(time.dateTime);
    const text = from(Math.trunc((moment - now) / 1000));
    if (time.firstChild?.nodeValue !== text) time.textContent = text;
    if (!time.dataset.local) {
      time.dataset.local = "yes";
      time.title = new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" }) + "\n" + time.title;
    }
  }
}

function from(seconds) {
  if (seconds === 0) return "now";
  const text = span(Math.abs(seconds));
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

function span(seconds) {
  const [size, name, small, smallName] = units.find(([size]) => seconds >= size);
  const rest = small > 0 ? Math.trunc((seconds % size) / small) : 0;
  return Math.trunc(seconds / size) + name + (rest > 0 ? ` ${rest}${smallName}` : "");
}
