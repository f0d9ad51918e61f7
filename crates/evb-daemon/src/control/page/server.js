// Requests. A token is asked for after a 401 only, and kept by this tab.

const KEY = "evb-token";
const PATIENCE = 2500;
/// For an hour of samples, and for commands: a start waits five seconds for those that are missing.
export const LONG = 20000;
/// A start waits for `on_start` of the sources.
const START = 600000;

let token = null;
try {
  token = sessionStorage.getItem(KEY);
} catch {
  // Storage is off: the token lives as long as the page.
}

export function useToken(value) {
  token = value;
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // As above.
  }
}

export const hasToken = () => token !== null;

/// Nobody there: `status` 0.
export class Refused extends Error {
  constructor(status, { request, refused_by, reason, remedy } = {}) {
    super(reason ?? `the answer has HTTP status ${status} and no reason`);
    Object.assign(this, { status, request, refusedBy: refused_by ?? "evbd", remedy: remedy ?? "look whether evbd runs, and at a proxy in between; their logs say more" });
  }
}

async function ask(method, path, body, patience) {
  const headers = {};
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  let response, answer;
  try {
    response = await fetch(path, {
      method, headers, body: body && JSON.stringify(body),
      cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(patience),
    });
    answer = await response.json().catch(() => ({}));
  } catch {
    throw new Refused(0, { reason: "evbd does not answer", remedy: "look whether it runs, and the network to it; the state of the run shows whether a command took effect" });
  }
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

export const get = (path, patience = PATIENCE) => ask("GET", path, undefined, patience);
export const command = (name, body) => ask("POST", `/v1/${name}`, body, name === "start" ? START : LONG);
