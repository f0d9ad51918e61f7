// Numbers as people read them: thin spaces between thousands, three digits where the rest is noise.

const NONE = "–";
const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export function count(value) {
  return isNumber(value) ? Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f") : NONE;
}

/// Three digits: 0.12, 1.23, 12.3, 123.
export function digits(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

/// A number and the prefix of its unit.
export function scaled(value) {
  if (!isNumber(value)) return [NONE, ""];
  let power = 0;
  for (; Math.abs(value) >= 999.5 && power < PREFIXES.length - 1; power++) value /= 1000;
  return [digits(value), PREFIXES[power]];
}

/// Whole below ten thousand, in thousands and millions above.
export function rate(value) {
  if (!isNumber(value)) return [NONE, ""];
  return value < 9999.5 ? [count(value), ""] : scaled(value);
}

/// For an axis: without zeros at the end.
export const short = (value) => {
  const [number, prefix] = scaled(value);
  return number.replace(/\.0+$|(\.\d*?)0+$/, "$1") + prefix;
};

export function bytes(value) {
  const [number, prefix] = scaled(value);
  return number === NONE ? NONE : `${prefix ? number : count(value)} ${prefix}B`;
}

/// Per second, of bytes per second; the unit stands elsewhere.
export const bits = (bytesPerSecond) => scaled(bytesPerSecond * 8).join(" ").trim();

export const percent = (share) => (isNumber(share) ? `${(100 * share).toFixed(1)} %` : NONE);

export function microseconds(value) {
  if (!isNumber(value)) return NONE;
  if (value < 999.5) return `${digits(value)} µs`;
  return value < 999500 ? `${digits(value / 1e3)} ms` : `${digits(value / 1e6)} s`;
}

export function duration(seconds) {
  if (!isNumber(seconds)) return NONE;
  if (seconds < 59.5) return `${seconds.toFixed(seconds < 9.95 ? 1 : 0)} s`;
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
}

/// The time of the day, where the browser is.
export const clock = (date) => date.toLocaleTimeString("en-GB");

/// The day and time of a text as in RFC 3339, on this browser's clock.
export function day(time) {
  const date = new Date(time);
  if (!time || isNaN(date)) return NONE;
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock(date) : `${date.toLocaleDateString("en-CA")} ${clock(date).slice(0, 5)}`;
}
