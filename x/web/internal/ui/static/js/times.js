// Keeps relative times current between snapshots, and writes exact times in the time zone of the
// browser. A setting selects which form is the text and which is the tooltip.

const units = [
  [86400, "d", 3600, "h"],
  [3600, "h", 60, "m"],
  [60, "m", 1, "s"],
  [1, "s", 0, ""],
];

export function countTimes() {
  count();
  setInterval(count, 1000);
  document.addEventListener("htmx:after:swap", count); // the server does not know the zone
}

function count() {
  if (document.hidden) return;
  const now = Date.now();
  const kind = document.documentElement.dataset.times;
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = Date.parse(time.dateTime);
    if (time.dataset.since !== undefined) {
      const age = span(Math.max(1, Math.trunc((now - moment) / 1000)));
      if (time.textContent !== age) time.textContent = age;
      continue;
    }
    const away = from(Math.trunc((moment - now) / 1000));
    const text = kind === "utc" ? "" : kind === "local" ? exact(new Date(moment)) : away;
    if (text && time.firstChild?.nodeValue !== text) time.textContent = text;
    if (kind !== "relative" && time.title !== away) time.title = away;
    if (kind === "relative" && !time.dataset.local) {
      time.dataset.local = "yes";
      time.title = new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" }) + "\n" + time.title;
    }
  }
}

// exact formats a time in the time zone of the browser, like the server formats it in UTC.
function exact(moment) {
  const pad = (n) => String(n).padStart(2, "0");
  const day = [moment.getFullYear(), pad(moment.getMonth() + 1), pad(moment.getDate())].join("-");
  return day + " " + [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(pad).join(":");
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
